"""`python -m unmasked` as its users call it, and as those do who try to break it."""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from helpers import own_lines, small_config
from helpers.small_training import stopping_at
from unmasked import Transformer, TransformerConfig, __version__
from unmasked.cli import COMMANDS, info, main, options, train, translate
from unmasked.storage.model import CONFIG, weights_file
from unmasked.text.sources import phrasebook_test
from unmasked.tokens import Words
from unmasked.training.processes import Processes
from unmasked.training.recipe import Recipe
from unmasked.translator import Translator

TINY = """
data = {name = "phrasebook", count = 150}
model = {d_model = 8, n_heads = 2, n_layers = 1, d_ff = 8, dropout = 0.0}
training = {steps = 10, tokens = 60, warmup = 2}
"""
QUIETLY = ["--quiet", "--device", "cpu", "--every", "5"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs a command in this process."""

    def call(*words, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["__main__.py", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "latin-1"))
        capsys.readouterr()
        status, last = 0, ""
        try:
            main()
        except SystemExit as stop:
            if isinstance(stop.code, str):  # what Python writes before it ends with 1
                status, last = 1, stop.code + "\n"
            else:
                status = stop.code or 0
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err + last)

    return call


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A training's folder."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "tiny.toml").write_text(TINY)
    with pytest.MonkeyPatch.context() as patch:
        words = ["train", "--config", str(folder / "tiny.toml"), "--out", str(folder / "run")]
        patch.setattr(sys, "argv", ["__main__.py", *words, *QUIETLY])
        main()
    return folder / "run"


def known_words(folder, count=3):
    return Translator.load(folder).source.words[5 : 5 + count]


def recorded(given, answer=None):
    """Stands for a function or a method: notes the options that it gets."""

    def call(*words, **options):
        given.append(options)
        return words[1] if answer is None else answer(words[1])

    return call


# --- Help -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_a_terminal_and_shows_examples_with_options_that_exist(
    command, monkeypatch, name
):
    monkeypatch.setenv("COLUMNS", "80")
    found = command(*name.split(), "--help")
    assert (found.status, found.err) == (0, "")
    assert max(map(len, found.out.splitlines())) <= 80
    usage, example = found.out.split("\nexample:\n")
    assert f"python -m unmasked {name}".strip() in example
    assert "--debug" in usage or all(f"\n  {command} " in usage for command in COMMANDS)
    for option in re.findall(r"--[a-z-]+", example.replace("--nproc-per-node", "")):
        assert option in usage
    assert ("--config FILE" in usage) == (name == "train")
    assert command("--version").out == f"unmasked {__version__}\n"


@pytest.mark.parametrize("line", train.EXAMPLE.split("\n\n")[0].splitlines())
def test_the_examples_of_train_and_their_file_are_understood(command, tmp_path, monkeypatch, line):
    """Up to the training itself."""
    asked = []
    (tmp_path / "my.toml").write_text(textwrap.dedent(train.EXAMPLE.split("my.toml:\n")[1]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "load_data", lambda **data: asked.append(data) or exit(7))
    found = command("train", *shlex.split(line.partition(" train ")[2]))
    assert (found.status, asked) == (7, [{"name": "phrasebook", "count": 40_000}])


def test_every_preset_is_a_whole_recipe():
    for path in train.PRESETS.iterdir():
        name = path.name.removesuffix(".toml")
        recipe = train.tables(SimpleNamespace(preset=name, config=None, set=[]))
        train.build(Recipe, "training", recipe["training"])
        sizes = {"source_vocab": 9, "target_vocab": 9}
        train.build(TransformerConfig, "model", recipe["model"] | sizes)


# --- train ------------------------------------------------------------------------------------


def test_training_says_what_it_does_and_leaves_a_model_that_its_seed_decides(
    command, recipe, run, tmp_path
):
    folder = tmp_path / "new" / "run"
    found = command("train", "--config", recipe, "--out", folder, *QUIETLY)
    assert (found.status, found.err) == (0, "")
    first, *table, last = found.out.splitlines()
    assert re.fullmatch(r"[\d,]+ parameters, 150 pairs, 1 process on cpu", first)
    assert [line.split()[0] for line in table] == ["step", "5", "10"]
    assert last == f'the model is in {folder}: python -m unmasked info "{folder}"'
    names = ["checkpoints", CONFIG, "history.csv", weights_file(folder).name]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert (folder / "history.csv").read_text().startswith("step,loss,norm,rate,seconds\n5,")
    about = Translator.load(folder).about
    assert about["recipe"]["training"] == {"steps": 10, "tokens": 60, "warmup": 2}
    assert about["machine"]["torch"] == torch.__version__
    assert about["command"].startswith("python -m unmasked train --config ")
    assert weights_file(folder).read_bytes() == weights_file(run).read_bytes()
    other = ["--out", tmp_path / "other", "--set", "training.seed=1"]
    command("train", "--config", recipe, *other, *QUIETLY)
    assert weights_file(tmp_path / "other").read_bytes() != weights_file(run).read_bytes()


def test_a_stopped_training_goes_on_and_ends_with_the_same_file(command, recipe, run, tmp_path):
    words = ["train", "--config", recipe, "--out", tmp_path, "--checkpoint-every", 4, "--resume"]
    with stopping_at(6):
        found = command(*words, *QUIETLY)
    assert found.status == 130
    assert "1 process on cpu, with nothing to resume\n" in found.out
    assert found.err.startswith("\npython -m unmasked train: stopped; --resume goes on")
    found = command(*words, *QUIETLY)
    assert found.status == 0
    assert "1 process on cpu, from step-00000004\n" in found.out
    assert weights_file(tmp_path).read_bytes() == weights_file(run).read_bytes()


def test_a_folder_that_holds_a_model_is_not_overwritten(command, recipe, run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    words = ["train", "--config", recipe, "--out", folder, "--set", "training.seed=1", *QUIETLY]
    refused(
        command(*words), "train", "--out: expected a folder without a training in it, got .*res"
    )
    shutil.rmtree(folder / "checkpoints")
    for more in ([], ["--resume"]):
        refused(
            command(*words, *more), "train", f"--out: expected .*, got {folder}; choose another"
        )
    assert weights_file(folder).read_bytes() == weights_file(run).read_bytes()


def test_settings_come_from_the_preset_then_the_file_then_the_command_line(tmp_path):
    """Also from a file that begins as some editors write it."""
    path = tmp_path / "my.toml"
    text = '[model]\nd_ff = 32\n[training]\nrate = "none"\nschedule = "paper"\nseed = 1\n'
    path.write_text(text, encoding="utf-8-sig")
    assigned = [train.assignment("training.seed=2")]
    recipe = train.tables(SimpleNamespace(preset="phrasebook", config=path, set=assigned))
    assert (recipe["model"]["d_ff"], recipe["model"]["d_model"]) == (32, 64)
    settings = train.build(Recipe, "training", recipe["training"])
    assert (settings.rate, settings.schedule, settings.steps) == (None, "paper", 1200)
    assert settings.seed == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("1e-3", 1e-3), ("pre", "pre"), ('"a=b"', "a=b"), ("true", True), ("", "")],
)
def test_an_assignment_is_read_as_toml_else_as_text(text, value):
    assert train.assignment(f"model.key={text}") == ("model", "key", value)


def test_options_reach_the_training(command, recipe, tmp_path, monkeypatch):
    given = {}

    def stop(*_, **options):
        given.update(options)
        raise FloatingPointError("the loss is nan")

    monkeypatch.setattr(train, "train", stop)
    words = ["train", "--config", recipe, "--out", tmp_path, "--device", "cpu"]
    found = command(*words, "--tensorboard", "--every", 7, "--checkpoint-every", 8)
    assert (found.status, found.err) == (1, "python -m unmasked train: the loss is nan\n")
    usual = {"watch": None, "folder": tmp_path / "checkpoints", "device": torch.device("cpu")}
    board = tmp_path / "tensorboard"
    own = {"every": 7, "checkpoint_every": 8, "progress": True, "tensorboard_folder": board}
    assert given == {**usual, **own, "resume": False}  # nothing to watch: no validation
    command(*words, "--quiet", "--resume")
    own = {"every": 50, "checkpoint_every": 500, "progress": False, "tensorboard_folder": None}
    assert given == {**usual, **own, "resume": True}


def test_a_path_that_is_not_utf_8_is_kept_as_it_can_be():
    about = train.about({}, ["--out", "x\udce9", "a b"], torch.device("cpu"))
    assert about["command"] == "python -m unmasked train --out 'x?' 'a b'"


def test_another_process_than_the_first_is_silent(command, recipe, tmp_path, monkeypatch):
    @contextmanager
    def second(device):
        yield Processes(1, 2, device)

    monkeypatch.setattr(train, "processes", second)
    monkeypatch.setattr(train, "train", lambda *_, **__: None)
    found = command("train", "--config", recipe, "--out", tmp_path / "run", *QUIETLY)
    assert (found.status, found.out, found.err) == (0, "", "")
    assert not list((tmp_path / "run").iterdir())


def test_two_processes_train_what_one_does_and_only_the_first_writes(recipe, run, tmp_path):
    launch = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["-m", "unmasked", "train", "--config", str(recipe), "--out", str(tmp_path / "two")]
    call = [sys.executable, "-m", *launch, *words, *QUIETLY]
    found = subprocess.run(call, env=ENVIRONMENT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("2 processes on cpu") == found.stdout.count("the model is in") == 1
    assert len(own_lines(found.stdout)) == 5
    columns = [(folder / "history.csv").read_text() for folder in (run, tmp_path / "two")]
    one, two = ([line.split(",")[:4] for line in text.splitlines()[1:]] for text in columns)
    assert [float(x) for row in one for x in row] == pytest.approx(
        [float(x) for row in two for x in row], rel=1e-5
    )
    assert Translator.load(tmp_path / "two").about["recipe"]["training"]["steps"] == 10


# --- translate --------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "beam_size"), [([], 1), (["--beam", 3], 3)])
def test_sentences_are_translated_in_their_order_and_empty_lines_stay(
    command, run, more, beam_size
):
    made = Translator.load(run)
    one, two, three = made.source.words[5:8]
    texts = [f"{one} {two}", three, f"{two} {one} {three}"]
    expected = made.translate(texts, beam_size=beam_size)
    assert len(set(expected)) == 3
    found = command("translate", "--model", run, "--device", "cpu", *more, *texts)
    assert (found.status, found.err, found.out.splitlines()) == (0, "", expected)
    lines = f"\ufeff{texts[0]}\r\n\n  \n{texts[2]}".encode()  # as some editors write it
    found = command("translate", "--model", run, *more, stdin=lines)
    assert found.out.split("\n") == [expected[0], "", "", expected[2], ""]
    assert command("translate", "--model", run).out == ""


def test_whoever_types_is_told_how(monkeypatch, capsys):
    typed = io.StringIO("a line\n")
    typed.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", typed)
    assert translate.lines() == ["a line"]
    assert capsys.readouterr().err == "one sentence a line; Ctrl-D ends\n"


def test_options_reach_the_search(command, run, monkeypatch):
    given = []
    monkeypatch.setattr(Translator, "translate", recorded(given))
    monkeypatch.setattr(Translator, "sample", recorded(given, lambda texts: [texts]))
    word = known_words(run)[0]
    command("translate", "--model", run, "--beam", 2, "--length-penalty", "0.1", word)
    command("translate", "--model", run, "--sample", 4, "--top-p", "0.9", "--seed", 7, word)
    assert given[1].pop("seed").initial_seed() == 7
    found = [{"beam_size": 2, "length_penalty": 0.1}, {"top_p": 0.9}]
    assert given == [{**options, "progress": True} for options in found]


def test_sampling_prints_so_many_lines_of_each_sentence_the_same_with_a_seed(
    command, run, monkeypatch
):
    """Also in portions, each of which has draws of its own."""
    word = known_words(run)[0]
    words = ["--sample", 3, "--temperature", 50, "--top-k", 9, "--seed", 1, word, word]
    for at_once in (1024, 1):
        monkeypatch.setattr(translate, "AT_ONCE", at_once)
        first = command("translate", "--model", run, *words)
        assert first.out.count("\n") == 6
        assert first.out.splitlines()[:3] != first.out.splitlines()[3:]
        assert command("translate", "--model", run, *words).out == first.out


def test_what_is_translated_is_printed_while_the_rest_is_still_to_come(command, run, monkeypatch):
    words, printed, real = known_words(run, 5), [], Translator.translate
    whole = command("translate", "--model", run, "--beam", 2, *words)

    def stopped(self, some, **options):
        printed.append(list(some))
        if len(printed) == 3:
            raise KeyboardInterrupt
        return real(self, some, **options)

    monkeypatch.setattr(translate, "AT_ONCE", 4)
    monkeypatch.setattr(Translator, "translate", stopped)
    found = command("translate", "--model", run, "--beam", 2, *words)
    assert printed == [words[:2], words[2:4], words[4:]]
    assert (found.status, found.out.splitlines()) == (130, whole.out.splitlines()[:4])
    assert found.err == "\npython -m unmasked translate: stopped\n"


# --- evaluate and info ------------------------------------------------------------------------


def test_an_evaluation_counts_and_says_what_it_left_out(command, run):
    found = command("evaluate", "--model", run, "--sentences", 60, "--device", "cpu")
    assert found.status == 0
    first, second, *rows, last = found.out.splitlines()
    left = int(re.fullmatch(r"left out, for words that the model does not know: (\d+)", first)[1])
    assert second == "translated without a mistake:"
    counts = dict(re.fullmatch(r"  (.+?) +\d+ of (\d+), [\d.]+%", row).groups() for row in rows)
    whole = int(counts.pop("all"))
    assert whole == 60 - left == sum(map(int, counts.values()))
    assert re.fullmatch(r"last layer's .* aligned one: \d+ of \d+, [\d.]+%", last)


def knowing(pairs, folder):
    """A model, not trained, that knows the words of these pairs."""
    words = [Words.of(pair[side] for pair in pairs) for side in (0, 1)]
    sizes = {"source_vocab": len(words[0]), "target_vocab": len(words[1])}
    Translator(Transformer(small_config(**sizes)), *words).save(folder)


def test_a_model_without_mistakes_has_them_all(command, tmp_path, monkeypatch):
    pairs, given = phrasebook_test(20), []
    knowing(pairs, tmp_path)
    english = {pair.german: pair.english for pair in pairs}
    perfect = recorded(given, lambda sentences: [english[sentence] for sentence in sentences])
    monkeypatch.setattr(Translator, "translate", perfect)
    words = ["--sentences", 20, "--beam", 4, "--length-penalty", 5]
    found = command("evaluate", "--model", tmp_path, *words)
    assert found.out.startswith("translated without a mistake:\n")
    assert "  all            20 of 20, 100.0%\n" in found.out
    assert given == [{"beam_size": 4, "length_penalty": 5.0, "progress": True}]


def test_info_says_what_the_folder_holds(command, run):
    found = command("info", run)
    made, size = Translator.load(run), weights_file(run).stat().st_size
    first, second, *rest = found.out.splitlines()
    assert first == f"{run}: {made.model.count_parameters():,} parameters, {size:,} bytes"
    assert second == f"vocabulary: {len(made.source)} source, {len(made.target)} target"
    for line in ("model:", "  d_model: 8", "recipe:", "  data:", "    count: 150"):
        assert line in rest
    found = json.loads(command("info", run, "--json").out)
    assert found["config"]["n_heads"] == 2
    assert found["about"]["recipe"]["data"] == {"name": "phrasebook", "count": 150}
    assert found["bytes"] == size


# --- Mistakes ---------------------------------------------------------------------------------


def refused(found, name, message):
    """In one line that begins with the argument, and says what to do."""
    assert (found.status, found.out) == (1, "")
    assert re.match(f"python -m unmasked {name}: {message}", found.err)
    assert re.search(r"; \w", found.err)
    assert found.err.count("\n") == 1


NAMED = "{file}: expected tables among .data., .model., .training., got "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b = 1\na = é", "{file}: expected TOML, got Invalid value .at line 2"),
        ("[models]\nd_ff = 8", rf"{NAMED}\[models\]"),
        ("steps = 8", f"{NAMED}steps = 8"),
        ("data = 'phrasebook'", f"{NAMED}data = 'phrasebook'"),
        ("", r"\[data\]: expected a name, such as phrasebook, got none"),
        (None, "{file}: expected a TOML file, got No such file"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(command, recipe, tmp_path, text, message):
    recipe.unlink()
    if text is not None:
        recipe.write_text(text, encoding="utf-8")
    found = command("train", "--config", recipe, "--out", tmp_path / "out")
    refused(found, "train", message.format(file=recipe))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "training.step=5"], r"\[training\]: expected keys of Recipe, got step"),
        (["--set", "model.heads=5"], r"\[model\]: expected keys of TransformerConfig, got heads"),
        (["--set", "training.steps=many"], "steps: expected a whole number of .*, got 'many'"),
        (["--set", f"model.d_model={10**30}"], r"\[model\]: expected sizes that memory has room"),
        (["--set", f"training.rate={5000 * '['}"], r"rate: expected a number .*, got '\[\["),
        (["--every", "0"], "--every: expected a whole number of at least 1, got 0"),
        (["--checkpoint-every", "-1"], "--checkpoint-every: expected a whole number of at least 1"),
        (["--out", "{file}"], r"--out: expected a folder, got {file} \(File exists\)"),
        (["--config", "{folder}"], "{folder}: expected a TOML file, got a folder"),
        (["--device", "quantum"], "--device: expected .*, got 'quantum'"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_line(command, recipe, tmp_path, words, message):
    places = {"file": recipe, "folder": tmp_path}
    usual = ["--config", recipe, "--out", tmp_path / "out", "--device", "cpu", "--quiet"]
    found = command("train", *usual, *(word.format(**places) for word in words))
    refused(found, "train", message.format(**places))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("translate --model {tmp} a", "{tmp}: expected a folder with config.json"),
        ("translate --model {tmp}/none a", "model: expected one of de-en, en-de, got "),
        ("translate --model {run} {word} xyz", "sentence 2: expected one of the "),
        ("translate --model {run} {word} {word}\udcff", "sentence 2: expected text in Unicode"),
        ("translate --model {run}", "standard input: expected UTF-8, got 'utf-8' codec"),
        ("translate --model {run} --beam 0 a", "--beam: expected a whole number"),
        ("translate --model {run} --sample=0 {word}", "--sample: expected a whole"),
        ("translate --model {run} --sample=2 --beam=4 {word}", "--sample: expected no --beam"),
        ("evaluate --model {run} --device cuda:99", "--device: expected "),
        ("evaluate --model {run} --device meta", "--device: expected "),
        ("evaluate --model {run} --sentences 0", "--sentences: expected a whole number of at"),
        ("evaluate --model {run} --beam 0", "--beam: expected a whole number of at"),
        ("evaluate --model {run} --beam 1 --length-penalty 1", "--length-penalty: expected --beam"),
        ("evaluate --model {tmp}/few --sentences 5", "--sentences: expected .* knows, got none"),
        ("info {run}/checkpoints", "{run}/checkpoints: expected a folder with config.json"),
    ],
)
def test_what_cannot_be_translated_or_shown_is_refused_in_one_line(
    command, run, tmp_path, line, message
):
    knowing([("eins", "one")], tmp_path / "few")
    places = {"tmp": tmp_path, "run": run, "word": known_words(run)[0]}
    found = command(*line.format(**places).split(), stdin="schön".encode("latin-1"))
    refused(found, line.split()[0], message.format(**places))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "expected a command: train, translate, evaluate, info"),
        ("fly", "invalid choice: 'fly'"),
        ("train --out x", "give --preset (multi30k-de-en, multi30k-en-de, phrasebook) or --config"),
        ("train --out x --preset phrasebook --con y", "unrecognized arguments: --con y"),
        ("train --out x --set steps=5", "argument --set: 'steps=5' is not like training.steps=500"),
        ("train --out x --set recipe.steps=5", "is not like training.steps=500"),
        ("train --out x --set training.=5", "is not like training.steps=500"),
        ("train --out x --set training.steps", "is not like training.steps=500"),
        ("evaluate --model x --test news", "argument --test: invalid choice: 'news'"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_said_with_the_usage(command, line, message):
    found = command(*line.split())
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith("usage: python -m unmasked ")
    assert message in found.err.splitlines()[-1]


def test_the_best_device_unless_another_is_named(monkeypatch):
    """Some builds of PyTorch for GPUs raise an error where none is and one counts them."""
    monkeypatch.setattr(options, "device", lambda: torch.device("cpu"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: pytest.fail("counted"))
    assert options.chosen_device(None) == torch.device("cpu")
    monkeypatch.setattr(options, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    for name, chosen in ((None, "cuda"), ("cuda:1", "cuda:1"), ("cpu", "cpu")):
        assert options.chosen_device(name) == torch.device(chosen)
    with pytest.raises(ValueError, match="--device: expected cuda or cpu, got 'cuda:2'"):
        options.chosen_device("cuda:2")


def test_too_little_memory_is_said_and_a_mistake_of_ours_is_not_hidden(command, monkeypatch):
    def fail(_):
        raise RuntimeError(problem)

    monkeypatch.setattr(info, "main", fail)
    problem = "CUDA out of memory. Tried to allocate 9 GiB\nand much more"
    refused(command("info"), "info", r"not enough memory \(.* allocate 9 GiB\)")
    problem = "a bug"
    with pytest.raises(RuntimeError, match="a bug"):
        command("info")


# --- Other processes --------------------------------------------------------------------------


def test_a_reader_that_leaves_early_ends_the_command_in_silence(
    command, run, tmp_path, monkeypatch
):
    class Left(io.StringIO):
        def write(self, _):
            raise BrokenPipeError

        def flush(self):
            raise BrokenPipeError

        def fileno(self):
            return file.fileno()

    with (tmp_path / "file").open("w") as file, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Left())
        found = command("info", run)
        assert os.path.samestat(os.fstat(file.fileno()), os.stat(os.devnull))  # for what is to come
    assert (found.status, found.err) == (1, "")


@pytest.mark.parametrize(
    ("given", "streams", "status", "printed", "said"),
    [
        ("größeres", "", 1, 0, "got 'größeres'; write in lower case"),
        ("", "0<&-", 0, 0, ""),
        ("{word}", "2>&-", 0, 1, ""),
        ("{word}", "1>&-", 1, 0, "standard output is closed"),
    ],
)
def test_text_is_utf_8_whatever_the_locale_says_and_a_closed_stream_is_no_traceback(
    run, given, streams, status, printed, said
):
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    environment = {**ENVIRONMENT, **locale, "PYTHONIOENCODING": "latin-1"}
    words = f"translate --model {shlex.quote(str(run))} {given.format(word=known_words(run)[0])}"
    line = f"{shlex.quote(sys.executable)} -m unmasked {words} {streams}"
    found = subprocess.run(line, shell=True, capture_output=True, env=environment, timeout=100)
    assert (found.returncode, found.stdout.count(b"\n")) == (status, printed)
    assert said in found.stderr.decode("utf-8")
    assert found.stderr.count(b"\n") == bool(said)
