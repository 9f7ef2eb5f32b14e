"""`python -m unmasked` as its users call it, and as those do who try to break it."""

import io
import json
import os
import re
import runpy
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
from unmasked import Transformer, TransformerConfig, __version__
from unmasked.cli import COMMANDS, evaluate, info, main, options, train, translate
from unmasked.storage.model import CONFIG, weights_file
from unmasked.text.sources import phrasebook_test
from unmasked.tokens import Words
from unmasked.training.processes import Processes
from unmasked.training.recipe import Recipe
from unmasked.training.trainer import Trainer
from unmasked.translator import Translator

TINY = """
[data]
name = "phrasebook"
count = 150
[model]
d_model = 8
n_heads = 2
n_layers = 1
d_ff = 8
dropout = 0.0
[training]
steps = 10
tokens = 60
warmup = 2
"""
QUIETLY = ["--quiet", "--device", "cpu", "--every", "5"]
PRESETS = ("multi30k-de-en", "multi30k-en-de", "phrasebook")
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


def module(*words, stdin=b"", **changes):
    """Runs a command in a process of its own."""
    call = [sys.executable, "-m", "unmasked", *map(str, words)]
    environment = {**ENVIRONMENT, **changes}
    return subprocess.run(call, input=stdin, capture_output=True, env=environment, timeout=100)


# --- Help -------------------------------------------------------------------------------------


def test_the_help_names_every_command(command):
    found = command("--help")
    assert found.status == 0
    for name, told in COMMANDS.items():
        assert re.search(rf"^  {name} +{told.__doc__.split(' ')[0]} ", found.out, re.MULTILINE)
    assert "example:\n  python -m unmasked train --help" in found.out


def test_the_version(command):
    assert command("--version").out == f"unmasked {__version__}\n"


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_a_terminal_and_shows_examples_that_exist(command, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    found = command(*name.split(), "--help")
    assert found.status == 0
    assert max(map(len, found.out.splitlines())) <= 80
    usage, example = found.out.split("\nexample:\n")
    assert f"python -m unmasked {name}".strip() in example
    for option in re.findall(r"--[a-z-]+", example.replace("--nproc-per-node", "")):
        assert option in usage
    assert ("--config FILE" in usage) == (name == "train")


@pytest.mark.parametrize("line", train.EXAMPLE.split("\n\n")[0].splitlines())
def test_the_examples_of_train_are_understood(command, tmp_path, monkeypatch, line):
    """Up to the training itself."""
    asked = []
    (tmp_path / "my.toml").write_text(textwrap.dedent(train.EXAMPLE.split("my.toml:\n")[1]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train, "load_data", lambda **data: asked.append(data) or exit(7))
    found = command("train", *shlex.split(line.partition(" train ")[2]))
    assert (found.status, asked) == (7, [{"name": "phrasebook", "count": 40_000}])


def test_the_file_in_the_help_of_train_is_a_recipe(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(textwrap.dedent(train.EXAMPLE.split("my.toml:\n")[1]))
    given = SimpleNamespace(preset=None, config=path, set=[])
    recipe = train.tables(given)
    assert recipe["data"] == {"name": "phrasebook", "count": 40_000}
    assert train.build(Recipe, "training", recipe["training"]).steps == 1200
    sizes = {"source_vocab": 9, "target_vocab": 9}
    assert train.build(TransformerConfig, "model", recipe["model"] | sizes).d_model == 64


def test_every_preset_is_a_whole_recipe():
    for path in train.PRESETS.iterdir():
        name = path.name.removesuffix(".toml")
        recipe = train.tables(SimpleNamespace(preset=name, config=None, set=[]))
        train.build(Recipe, "training", recipe["training"])
        sizes = {"source_vocab": 9, "target_vocab": 9}
        train.build(TransformerConfig, "model", recipe["model"] | sizes)


@pytest.mark.parametrize("words", [[], ["fly"], ["train", "--fly"], ["train", "--con", "x"]])
def test_what_is_no_command_or_option_is_said_with_the_usage(command, words):
    found = command(*words)
    assert found.status == 2
    assert found.out == ""
    assert found.err.startswith("usage: python -m unmasked")
    what = "" if words else "expected a command: train, translate, evaluate, info"
    assert f"error: {what}" in found.err.splitlines()[-1]


# --- train ------------------------------------------------------------------------------------


def test_training_says_what_it_does_and_leaves_a_model_with_its_history(command, recipe, tmp_path):
    found = command("train", "--config", recipe, "--out", tmp_path / "new" / "run", *QUIETLY)
    assert found.status == 0
    assert found.err == ""
    first, *table, last = found.out.splitlines()
    assert re.fullmatch(r"[\d,]+ parameters, 150 pairs, 1 process on cpu", first)
    assert [line.split()[0] for line in table] == ["step", "5", "10"]
    folder = tmp_path / "new" / "run"
    assert last == f'the model is in {folder}: python -m unmasked info "{folder}"'
    names = ["checkpoints", CONFIG, "history.csv", weights_file(folder).name]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert (folder / "history.csv").read_text().startswith("step,loss,norm,rate,seconds\n5,")
    about = Translator.load(folder).about
    assert about["recipe"]["training"] == {"steps": 10, "tokens": 60, "warmup": 2}
    assert about["machine"]["torch"] == torch.__version__
    assert about["command"].startswith("python -m unmasked train --config ")


def test_the_same_seed_gives_the_same_file_and_another_seed_another(command, recipe, run, tmp_path):
    for out, seed in (("same", 0), ("other", 1)):
        words = ["--config", recipe, "--out", tmp_path / out, "--set", f"training.seed={seed}"]
        assert command("train", *words, *QUIETLY).status == 0
    first = weights_file(run).read_bytes()
    assert weights_file(tmp_path / "same").read_bytes() == first
    assert weights_file(tmp_path / "other").read_bytes() != first


def test_a_stopped_training_goes_on_and_ends_with_the_same_file(
    command, recipe, run, tmp_path, monkeypatch
):
    words = ["train", "--config", recipe, "--out", tmp_path, "--checkpoint-every", 4, "--resume"]
    words += QUIETLY
    advance = Trainer.advance

    def stop(self):
        if self.step == 6:
            raise KeyboardInterrupt
        advance(self)

    monkeypatch.setattr(Trainer, "advance", stop)
    found = command(*words)
    assert found.status == 130
    assert "1 process on cpu, with nothing to resume\n" in found.out
    assert found.err == (
        "\npython -m unmasked train: stopped; --resume goes on from the last checkpoint\n"
    )
    monkeypatch.setattr(Trainer, "advance", advance)
    found = command(*words)
    assert found.status == 0
    assert "1 process on cpu, from step-00000004\n" in found.out
    assert weights_file(tmp_path).read_bytes() == weights_file(run).read_bytes()


def test_a_folder_that_holds_a_model_is_not_overwritten(command, recipe, tmp_path):
    words = ["train", "--config", recipe, "--out", tmp_path, "--set", "training.steps=1", *QUIETLY]
    assert command(*words).status == 0
    before = weights_file(tmp_path).read_bytes()
    found = command(*words, "--set", "training.seed=1")
    assert (found.status, found.out) == (1, "")
    assert "--out: expected a folder without a training in it, got" in found.err
    assert "; --resume goes on; else choose another folder" in found.err
    shutil.rmtree(tmp_path / "checkpoints")
    for more in ([], ["--resume"]):
        found = command(*words, "--set", "training.seed=1", *more)
        assert found.status == 1
        assert found.err.endswith(f"got {tmp_path}; choose another folder\n")
    assert weights_file(tmp_path).read_bytes() == before


def test_settings_come_from_the_preset_then_the_file_then_the_command_line(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('[model]\nd_ff = 32\n[training]\nrate = "none"\nschedule = "paper"\nseed = 1\n')
    given = SimpleNamespace(
        preset="phrasebook", config=path, set=[train.assignment("training.seed=2")]
    )
    recipe = train.tables(given)
    assert recipe["model"]["d_ff"] == 32
    assert recipe["model"]["d_model"] == 64
    assert recipe["training"]["seed"] == 2
    settings = train.build(Recipe, "training", recipe["training"])
    assert (settings.rate, settings.schedule, settings.steps) == (None, "paper", 1200)


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
    assert given == {
        "watch": None,  # the phrasebook has nothing to validate on
        "folder": tmp_path / "checkpoints",
        "resume": False,
        "device": torch.device("cpu"),
        "every": 7,
        "checkpoint_every": 8,
        "progress": True,
        "tensorboard_folder": tmp_path / "tensorboard",
    }
    command(*words, "--quiet", "--resume")
    assert (given["progress"], given["every"], given["checkpoint_every"]) == (False, 50, 500)
    assert (given["resume"], given["tensorboard_folder"]) == (True, None)


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
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = ["-m", "unmasked", "train", "--config", str(recipe), "--out", str(tmp_path / "two")]
    call = [*launch, "--nproc-per-node", "2", *words, *QUIETLY]
    found = subprocess.run(call, env=ENVIRONMENT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("2 processes on cpu") == found.stdout.count("the model is in") == 1
    assert len(own_lines(found.stdout)) == 5
    one, two = (
        [line.split(",") for line in (folder / "history.csv").read_text().splitlines()]
        for folder in (run, tmp_path / "two")
    )
    assert one[0] == two[0] == ["step", "loss", "norm", "rate", "seconds"]
    for a, b in zip(one[1:], two[1:], strict=True):
        assert [float(x) for x in a[:4]] == pytest.approx([float(x) for x in b[:4]], rel=1e-5)
    assert len(list((tmp_path / "two" / "checkpoints").glob("step-*"))) == 1
    assert Translator.load(tmp_path / "two").about["recipe"]["training"]["steps"] == 10


# --- translate --------------------------------------------------------------------------------


def test_sentences_are_translated_in_their_order(command, run):
    made = Translator.load(run)
    one, two, three = made.source.words[5:8]
    texts = [f"{one} {two}", three, f"{two} {one} {three}"]
    for more, beam_size in ([], 1), (["--beam", 3], 3):
        expected = made.translate(texts, beam_size=beam_size)
        assert len(set(expected)) == 3
        found = command("translate", "--model", run, "--device", "cpu", *more, *texts)
        assert (found.status, found.err) == (0, "")
        assert found.out.splitlines() == expected


def test_lines_are_translated_and_empty_ones_stay(command, run):
    one, two = known_words(run, 2)
    lines = f"\ufeff{one}\r\n\n  \n{two} {one}".encode()  # as some editors write it
    found = command("translate", "--model", run, stdin=lines)
    assert found.status == 0
    both = Translator.load(run).translate([one, f"{two} {one}"])
    assert both[0] != both[1]
    assert found.out == f"{both[0]}\n\n\n{both[1]}\n"


def test_no_lines_no_translations(command, run):
    found = command("translate", "--model", run)
    assert (found.status, found.out, found.err) == (0, "", "")


def test_whoever_types_is_told_how(monkeypatch, capsys):
    typed = io.StringIO("a line\n")
    typed.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", typed)
    assert translate.lines() == ["a line"]
    assert capsys.readouterr().err == "one sentence a line; Ctrl-D ends\n"


def test_the_length_penalty_is_passed_on(command, run, monkeypatch):
    given = {}
    monkeypatch.setattr(Translator, "translate", lambda *_, **options: given.update(options) or [])
    word = known_words(run)[0]
    command("translate", "--model", run, "--beam", 2, "--length-penalty", "0.1", word)
    assert given == {"beam_size": 2, "length_penalty": 0.1, "progress": True}


def test_sampling_prints_so_many_lines_of_each_sentence_the_same_with_a_seed(command, run):
    word = known_words(run)[0]
    words = ["--sample", 3, "--temperature", 2.0, "--top-k", 9, "--seed", 1, word, word]
    first = command("translate", "--model", run, *words)
    assert first.out.count("\n") == 6
    assert len(set(first.out.split("\n"))) > 2
    assert command("translate", "--model", run, *words).out == first.out


def test_the_options_of_sampling_are_passed_on(command, run, monkeypatch):
    given = {}
    monkeypatch.setattr(
        Translator, "sample", lambda _, *words, **options: given.update(options, n=words[1]) or []
    )
    command("translate", "--model", run, "--sample", 4, "--top-p", "0.9", "--seed", 7, "")
    assert given.pop("seed").initial_seed() == 7
    assert given == {"top_p": 0.9, "progress": True, "n": 4}


def test_each_portion_of_the_samples_has_draws_of_its_own(command, run, monkeypatch):
    monkeypatch.setattr(translate, "AT_ONCE", 1)
    words = [*known_words(run)[:1]] * 12
    options = ("--sample", 1, "--temperature", 50, "--seed", 7)
    found = command("translate", "--model", run, *options, *words)
    assert found.status == 0
    assert len(set(found.out.splitlines())) > 1


# --- evaluate ---------------------------------------------------------------------------------


def test_an_evaluation_counts_and_says_what_it_left_out(command, run):
    found = command("evaluate", "--model", run, "--sentences", 60, "--device", "cpu")
    assert found.status == 0
    first, second, *rows, last = found.out.splitlines()
    left = int(re.fullmatch(r"left out, for words that the model does not know: (\d+)", first)[1])
    assert second == "translated without a mistake:"
    counts = dict(re.fullmatch(r"  (.+?) +\d+ of (\d+), [\d.]+%", row).groups() for row in rows)
    whole = int(counts.pop("all"))
    assert whole == 60 - left == sum(map(int, counts.values()))
    assert re.fullmatch(
        r"last layer's strongest source word is an aligned one: \d+ of \d+, [\d.]+%", last
    )


def test_an_evaluation_passes_beam_and_length_penalty_on(command, run, monkeypatch):
    given = []

    def translate(_, sentences, **options):
        given.append(options)
        return list(sentences)

    monkeypatch.setattr(Translator, "translate", translate)
    options = ("--sentences", 60, "--beam", 4, "--length-penalty", 5, "--device", "cpu")
    assert command("evaluate", "--model", run, *options).status == 0
    assert given == [{"beam_size": 4, "length_penalty": 5.0, "progress": True}]


def knowing(pairs, folder):
    """A model, not trained, that knows the words of these pairs."""
    words = [Words.of(pair[side] for pair in pairs) for side in (0, 1)]
    sizes = {"source_vocab": len(words[0]), "target_vocab": len(words[1])}
    Translator(Transformer(small_config(**sizes)), *words).save(folder)


def test_a_model_without_mistakes_has_them_all(command, tmp_path, monkeypatch):
    pairs = phrasebook_test(20)
    knowing(pairs, tmp_path)
    english = {pair.german: pair.english for pair in pairs}
    given = {}

    def perfect(_, sentences, **options):
        given.update(options)
        return [english[sentence] for sentence in sentences]

    monkeypatch.setattr(Translator, "translate", perfect)
    found = command("evaluate", "--model", tmp_path, "--sentences", 20, "--beam", 4)
    assert found.out.startswith("translated without a mistake:\n")
    assert "  all            20 of 20, 100.0%\n" in found.out
    assert given["beam_size"] == 4


# --- info -------------------------------------------------------------------------------------


def test_info_says_what_the_folder_holds(command, run):
    found = command("info", run)
    assert found.status == 0
    made, size = Translator.load(run), weights_file(run).stat().st_size
    first, second, *rest = found.out.splitlines()
    assert first == f"{run}: {made.model.count_parameters():,} parameters, {size:,} bytes"
    assert second == f"vocabulary: {len(made.source)} source, {len(made.target)} target"
    for line in ("model:", "  d_model: 8", "recipe:", "  data:", "    count: 150"):
        assert line in rest
    assert f"  torch: {torch.__version__}" in rest


def test_info_for_programs(command, run):
    found = json.loads(command("info", run, "--json").out)
    assert found["config"]["n_heads"] == 2
    assert found["about"]["recipe"]["data"] == {"name": "phrasebook", "count": 150}
    assert found["bytes"] == weights_file(run).stat().st_size


# --- Mistakes ---------------------------------------------------------------------------------

NAMED = "{file}: expected tables among [data], [model], [training], got "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data", "{file}: expected TOML, got "),
        ("b = 1\na = é", "{file}: expected TOML, got Invalid value (at line 2"),
        ("[models]\nd_ff = 8", f"{NAMED}[models]; put it under one of these"),
        ("[train]\nout = 'x'", f"{NAMED}[train]; "),  # these are options
        ("steps = 8", f"{NAMED}steps = 8; "),
        ("data = 'phrasebook'", f"{NAMED}data = 'phrasebook'; "),
        ("", "[data]: expected a name, such as phrasebook, got none; "),
    ],
)
def test_a_file_that_is_no_recipe_is_refused_in_one_line(command, recipe, tmp_path, text, message):
    recipe.write_text(text, encoding="utf-8")
    found = command("train", "--config", recipe, "--out", tmp_path / "out")
    refused(found, "train", message.format(file=recipe))
    assert not (tmp_path / "out").exists()


def refused(found, name, message):
    """In one line that begins with the argument, and says what to do."""
    assert (found.status, found.out) == (1, "")
    assert found.err.startswith(f"python -m unmasked {name}: {message}")
    assert re.search(r"; \w", found.err)
    assert found.err.count("\n") == 1


def test_a_file_that_some_editors_write_is_read_and_one_that_is_not_there_is_refused(tmp_path):
    (tmp_path / "my.toml").write_bytes(b"\xef\xbb\xbf" + TINY.encode())
    assert train.read_toml(tmp_path / "my.toml")["model"]["d_ff"] == 8
    for path, got in ((tmp_path / "no.toml", "No such file"), (tmp_path, "a folder")):
        with pytest.raises(ValueError, match=f"{path.name}: expected a TOML file, got {got}.*; ch"):
            train.read_toml(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "data.name=news"], "data.name: expected 'phrasebook' or 'multi30k', got 'news'"),
        (
            ["--set", "data.cuont=5"],
            "[data] of phrasebook: expected 'count' or 'seed', got 'cuont'",
        ),
        (["--set", "data.count=0"], "count: expected a whole number of at least 1, got 0"),
        (
            ["--set", "training.step=5"],
            "[training]: expected keys of Recipe, got step; there are: ",
        ),
        (["--set", "model.heads=5"], "[model]: expected keys of TransformerConfig, got heads; "),
        (["--set", "training.steps=many"], "steps: expected a whole number of at least 1, got 'ma"),
        (["--set", "model.n_heads=3"], "n_heads: expected a divisor of d_model=8, got 3; "),
        (["--set", f"model.d_model={10**30}"], "[model]: expected sizes that memory has room for"),
        (["--set", f"training.rate=1{400 * '0'}"], "rate: expected a number from 0 to 1, got 1000"),
        (["--set", "training.clip=inf"], "clip: expected a number from 1e-09 to 1e+09, got inf"),
        (["--set", f"training.rate={5000 * '['}"], "rate: expected a number from 0 to 1, got '[["),
        (["--set", "training.tokens=2"], "max_tokens: expected room for the longest sentence"),
        (["--every", "0"], "--every: expected a whole number of at least 1, got 0; "),
        (["--checkpoint-every", "-1"], "--checkpoint-every: expected a whole number of at least 1"),
        (["--out", "{file}"], "--out: expected a folder, got {file} (File exists); choose"),
        (["--device", "quantum"], "--device: expected "),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_line(command, recipe, tmp_path, words, message):
    given = [word.format(file=recipe) for word in words]
    usual = ["--config", recipe, "--out", tmp_path / "out", "--device", "cpu", "--quiet"]
    found = command("train", *usual, *given)
    if "tokens" in words[-1]:  # which the corpus refuses, when all else has been said
        assert found.out.count("\n") == 1
        found.out = ""
    refused(found, "train", message.format(file=recipe))


FOLDER = "expected a folder with config.json and the weights that it names, got No such file"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["translate", "--model", "{tmp}", "a"], f"{{tmp}}: {FOLDER}"),
        (["translate", "--model", "{tmp}/none", "a"], "model: expected one of de-en, en-de, got "),
        (["translate", "--model", "{run}", "{word}", "xyz"], "sentence 2: expected one of the "),
        (["translate", "--model", "{run}", "--beam", "0", "a"], "--beam: expected a whole number"),
        (["translate", "--model", "{run}", "--beam", "9999", "{word}"],
         "beam_size: expected at most the target vocabulary's "),
        (["translate", "--model", "{run}", "--beam=2", "--length-penalty", "nan", "{word}"],
         "length_penalty: expected a number from 0 to 10, got nan"),
        (["translate", "--model", "{run}", "--sample=0", "{word}"], "--sample: expected a whole"),
        (["translate", "--model", "{run}", "--sample=2", "--top-p=2", "{word}"],
         "top_p: expected a number from 1e-09 to 1, got 2.0"),
        (["translate", "--model", "{run}", "--sample=2", "--beam=4", "{word}"],
         "--sample: expected no --beam beside it, got 4"),
        (["translate", "--model", "{run}", "--device", "quantum", "a"], "--device: expected "),
        (["evaluate", "--model", "{run}", "--device", "cuda:99"], "--device: expected "),
        (["evaluate", "--model", "{run}", "--device", "meta"], "--device: expected "),
        (["evaluate", "--model", "{run}", "--sentences", "0"], "--sentences: expected a whole num"),
        (["evaluate", "--model", "{run}", "--beam", "0"], "--beam: expected a whole number of at"),
        (["info", "{run}/checkpoints"], f"{{run}}/checkpoints: {FOLDER}"),
    ],
)  # fmt: skip
def test_what_cannot_be_translated_or_shown_is_refused_in_one_line(
    command, run, tmp_path, words, message
):
    places = {"tmp": tmp_path, "run": run, "word": known_words(run)[0]}
    found = command(*(word.format(**places) for word in words))
    refused(found, words[0], message.format(**places))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "--preset", "phrasebook"], "arguments are required: --out"),
        (["train", "--out", "x"], f"give --preset ({', '.join(PRESETS)}) or --config FILE"),
        (["train", "--config"], "argument --config: expected one argument"),
        (["train", "--out", "x", "--preset", "big"], "argument --preset: invalid choice: 'big'"),
        (["train", "--out", "x", "--set", "steps=5"],
         "argument --set: 'steps=5' is not like training.steps=500 (data, model, training)"),
        (["train", "--out", "x", "--set", "recipe.steps=5"], "is not like training.steps=500"),
        (["train", "--out", "x", "--set", "training.=5"], "is not like training.steps=500"),
        (["train", "--out", "x", "--set", "training.steps"], "is not like training.steps=500"),
        (["translate", "a"], "arguments are required: --model"),
        (["translate", "--model", "x", "--beam", "two"], "argument --beam: invalid int value"),
        (["translate", "--model", "x", "--config", "y"], "unrecognized arguments: --config"),
        (["evaluate", "--model", "x", "--test", "news"], "argument --test: invalid choice: 'news'"),
        (["info"], "arguments are required: MODEL"),
        (["info", "x", "y"], "unrecognized arguments: y"),
    ],
)  # fmt: skip
def test_a_command_line_that_cannot_be_read_is_said_with_the_usage(command, words, message):
    found = command(*words)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"usage: python -m unmasked {words[0]} ")
    assert message in found.err.splitlines()[-1]


def test_text_that_is_not_utf_8_is_said(command, run):
    found = command("translate", "--model", run, stdin="schön".encode("latin-1"))
    assert found.status == 1
    assert "standard input: expected UTF-8, got 'utf-8' codec can't decode byte 0xf6" in found.err
    assert found.err.endswith("; save the text as UTF-8\n")


def test_a_model_that_knows_none_of_the_words_is_not_scored(command, tmp_path):
    knowing([("eins", "one")], tmp_path)
    found = command("evaluate", "--model", tmp_path, "--sentences", 5)
    refused(
        found, "evaluate", "--sentences: expected sentences whose words the model knows, got no"
    )


def test_the_best_device_unless_another_is_named(monkeypatch):
    monkeypatch.setattr(options, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    assert options.chosen_device(None) == torch.device("cuda")
    assert options.chosen_device("cuda:1") == torch.device("cuda:1")
    assert options.chosen_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="--device: expected cuda or cpu, got 'cuda:2'; leave it"):
        options.chosen_device("cuda:2")


def test_where_there_is_no_gpu_none_is_counted(monkeypatch):
    """Some builds of PyTorch for GPUs raise an error there."""

    def count():
        raise RuntimeError("Found no NVIDIA driver on your system")

    monkeypatch.setattr(options, "device", lambda: torch.device("cpu"))
    monkeypatch.setattr(torch.accelerator, "device_count", count)
    assert options.chosen_device(None) == torch.device("cpu")


def test_too_little_memory_is_said_and_a_mistake_of_ours_is_not_hidden(command, monkeypatch):
    def fail(_):
        raise RuntimeError(problem)

    monkeypatch.setattr(info, "main", fail)
    problem = "CUDA out of memory. Tried to allocate 9 GiB\nand much more"
    found = command("info")
    assert (found.status, found.err) == (
        1,
        "python -m unmasked info: not enough memory (CUDA out of memory. Tried to allocate 9 GiB); "
        "smaller sizes or batches need less\n",
    )
    problem = "a bug"
    with pytest.raises(RuntimeError, match="a bug"):
        command("info")


def test_stopping_another_command_speaks_of_no_training(command, monkeypatch):
    def stop(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluate, "main", stop)
    found = command("evaluate")
    assert (found.status, found.err) == (130, "\npython -m unmasked evaluate: stopped\n")


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


def test_a_reader_that_is_gone_in_a_process_of_its_own(run):
    reader, writer = os.pipe()
    os.close(reader)
    call = [sys.executable, "-m", "unmasked", "info", str(run)]
    found = subprocess.run(call, stdout=writer, stderr=subprocess.PIPE, env=ENVIRONMENT)
    os.close(writer)
    assert (found.returncode, found.stderr) == (1, b"")


def test_text_is_utf_8_whatever_the_locale_says(run):
    text = "größeres"
    changes = {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0", "LC_ALL": "C"}
    found = module("translate", "--model", run, stdin=text.encode(), **changes)
    assert found.returncode == 1
    assert found.stdout == b""
    assert f"got '{text}'; write in lower case" in found.stderr.decode("utf-8")
    assert found.stderr.count(b"\n") == 1


@pytest.mark.parametrize("stdin", [True, False])
def test_bytes_that_are_no_text_are_said_with_the_sentence(run, stdin):
    word = known_words(run)[0].encode()
    call = [sys.executable, "-m", "unmasked", "translate", "--model", str(run)]
    given = [] if stdin else [word, word + b" \xff"]
    piped = {"input": b"\xff\n"} if stdin else {}
    found = subprocess.run([*call, *given], capture_output=True, env=ENVIRONMENT, **piped)
    error = found.stderr.decode()
    assert (found.returncode, found.stdout, error.count("\n")) == (1, b"", 1)
    wanted = "standard input: expected UTF-8" if stdin else "sentence 2: expected text in Unicode"
    assert wanted in error


def test_a_sentence_on_the_command_line_is_utf_8_whatever_the_locale_says(run):
    changes = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    found = module("translate", "--model", run, "schläft", **changes)
    assert "Traceback" not in found.stderr.decode()
    assert found.returncode == 0 or "got 'schläft'; write in lower case" in found.stderr.decode()


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_stream_is_no_traceback(run, closed):
    words = f"translate --model {shlex.quote(str(run))} {known_words(run)[0]}"
    close = f"{closed}{'<' if closed == 0 else '>'}&-"
    line = f"{shlex.quote(sys.executable)} -m unmasked {words} {close}"
    found = subprocess.run(line, shell=True, capture_output=True, env=ENVIRONMENT, timeout=100)
    assert b"Traceback" not in found.stderr
    if closed == 1:
        assert found.returncode == 1
        assert b"standard output is closed" in found.stderr
    else:
        assert found.returncode == 0
        assert found.stdout.count(b"\n") == 1


def test_what_is_translated_is_printed_while_the_rest_is_still_to_come(command, run, monkeypatch):
    monkeypatch.setattr(translate, "AT_ONCE", 2)
    words, printed = known_words(run, 5), []
    whole = command("translate", "--model", run, *words)
    real = Translator.translate

    def stopped(self, some, **options):
        printed.append(list(some))
        if len(printed) == 3:
            raise KeyboardInterrupt
        return real(self, some, **options)

    monkeypatch.setattr(Translator, "translate", stopped)
    found = command("translate", "--model", run, *words)
    assert printed == [words[:2], words[2:4], words[4:]]
    assert (found.status, found.out.splitlines()) == (130, whole.out.splitlines()[:4])


def test_a_mistake_in_the_last_line_is_said_before_any_work(command, run, monkeypatch):
    monkeypatch.setattr(translate, "AT_ONCE", 1)
    found = command("translate", "--model", run, *known_words(run), "xyz")
    assert (found.status, found.out) == (1, "")
    assert "sentence 4: expected one of the" in found.err


def test_the_package_can_be_run(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["unmasked", "--version"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("unmasked", run_name="__main__")
    assert capsys.readouterr().out == f"unmasked {__version__}\n"


def test_python_m_unmasked_ends_with_the_right_status():
    found = module("--help")
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout.startswith(b"usage: python -m unmasked")
