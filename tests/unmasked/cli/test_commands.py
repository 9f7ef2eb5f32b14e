"""`python -m unmasked` as its users call it, and as those do who try to break it."""

import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from helpers import small_config
from unmasked import Transformer, TransformerConfig, __version__, commands
from unmasked.cli import evaluate, info, main, options, train, translate
from unmasked.data.sources import phrasebook_test
from unmasked.data.vocabulary import Words
from unmasked.training.processes import Processes
from unmasked.training.recipe import Recipe
from unmasked.training.trainer import Run
from unmasked.translator import CONFIG, WEIGHTS, Translator

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
[train]
quiet = true
device = "cpu"
every = 5
"""
PRESETS = ("multi30k-de-en", "multi30k-en-de", "phrasebook")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs a command in this process."""

    def call(*words, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["unmasked", *map(str, words)])
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
        patch.setattr(sys, "argv", ["unmasked", *words])
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
    for name, told in commands.COMMANDS.items():
        assert re.search(rf"^  {name} +{told.__doc__.split(' ')[0]} ", found.out, re.MULTILINE)
    assert "example:\n  python -m unmasked train --help" in found.out


def test_the_version(command):
    assert command("--version").out == f"unmasked {__version__}\n"


@pytest.mark.parametrize("name", ["", *commands.COMMANDS])
def test_help_fits_a_terminal_and_shows_examples_that_exist(command, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    found = command(*name.split(), "--help")
    assert found.status == 0
    assert max(map(len, found.out.splitlines())) <= 80
    usage, example = found.out.split("\nexample:\n")
    assert f"python -m unmasked {name}".strip() in example
    for option in re.findall(r"--[a-z-]+", example.replace("--nproc-per-node", "")):
        assert option in usage
    if name:
        assert "--config FILE" in usage


def test_the_file_in_the_help_of_train_is_a_recipe(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(textwrap.dedent(train.EXAMPLE.split("my.toml:\n")[1]))
    given = SimpleNamespace(preset=None, config=path, set=[])
    recipe = train.tables(given)
    assert recipe["data"] == {"name": "phrasebook", "count": 40_000}
    assert train.build(Recipe, "training", recipe["training"]).steps == 1200
    sizes = {"source_vocab": 9, "target_vocab": 9}
    assert train.build(TransformerConfig, "model", recipe["model"] | sizes).d_model == 64
    assert options.read_toml(path)["train"] == {"out": "runs/mine"}


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
    found = command("train", "--config", recipe, "--out", tmp_path / "new" / "run")
    assert found.status == 0
    assert found.err == ""
    first, *table, last = found.out.splitlines()
    assert re.fullmatch(r"[\d,]+ parameters, 150 pairs, 1 process on cpu", first)
    assert [line.split()[0] for line in table] == ["step", "5", "10"]
    folder = tmp_path / "new" / "run"
    assert last == f'the model is in {folder}: python -m unmasked info "{folder}"'
    names = ["checkpoints", CONFIG, "history.csv", WEIGHTS]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert (folder / "history.csv").read_text().startswith("step,loss,norm,rate,seconds\n5,")
    about = Translator.load(folder).about
    assert about["recipe"]["training"] == {"steps": 10, "tokens": 60, "warmup": 2}
    assert about["machine"]["torch"] == torch.__version__
    assert about["command"].startswith("python -m unmasked train --config ")


def test_the_same_seed_gives_the_same_file_and_another_seed_another(command, recipe, run, tmp_path):
    for out, seed in (("same", 0), ("other", 1)):
        command(
            "train", "--config", recipe, "--out", tmp_path / out, "--set", f"training.seed={seed}"
        )
    first = (run / WEIGHTS).read_bytes()
    assert (tmp_path / "same" / WEIGHTS).read_bytes() == first
    assert (tmp_path / "other" / WEIGHTS).read_bytes() != first


def test_a_stopped_training_goes_on_and_ends_with_the_same_file(
    command, recipe, run, tmp_path, monkeypatch
):
    words = ["train", "--config", recipe, "--out", tmp_path, "--checkpoint-every", 4, "--resume"]
    advance = Run.advance

    def stop(self):
        if self.step == 6:
            raise KeyboardInterrupt
        advance(self)

    monkeypatch.setattr(Run, "advance", stop)
    found = command(*words)
    assert found.status == 130
    assert "1 process on cpu, with nothing to resume\n" in found.out
    assert found.err == (
        "\npython -m unmasked train: stopped; --resume goes on from the last checkpoint\n"
    )
    monkeypatch.setattr(Run, "advance", advance)
    found = command(*words)
    assert found.status == 0
    assert "1 process on cpu, from step-00000004\n" in found.out
    assert (tmp_path / WEIGHTS).read_bytes() == (run / WEIGHTS).read_bytes()


def test_a_folder_that_holds_a_model_is_not_overwritten(command, recipe, tmp_path):
    words = ["train", "--config", recipe, "--out", tmp_path, "--set", "training.steps=1"]
    assert command(*words).status == 0
    before = (tmp_path / WEIGHTS).read_bytes()
    expected = f"--out: expected a folder without a training in it, got {tmp_path}; "
    found = command(*words, "--set", "training.seed=1")
    assert (found.status, found.out) == (1, "")
    fix = "--resume goes on; else choose another folder"
    assert found.err == f"python -m unmasked train: {expected}{fix}\n"
    shutil.rmtree(tmp_path / "checkpoints")
    for more in ([], ["--resume"]):
        found = command(*words, "--set", "training.seed=1", *more)
        assert found.err == f"python -m unmasked train: {expected}choose another folder\n"
    assert (tmp_path / WEIGHTS).read_bytes() == before


def test_settings_come_from_the_preset_then_the_file_then_the_command_line(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text('[model]\nd_ff = 32\n[training]\nrate = "none"\nschedule = "paper"\nseed = 1\n')
    given = SimpleNamespace(
        preset="phrasebook", config=path, set=[options.assignment("training.seed=2")]
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
    assert options.assignment(f"model.key={text}") == ("model", "key", value)


def test_options_reach_the_training(command, recipe, tmp_path, monkeypatch):
    given = {}

    def stop(*_, **options):
        given.update(options)
        raise FloatingPointError("the loss is nan")

    monkeypatch.setattr(train, "train", stop)
    words = ["train", "--config", recipe, "--out", tmp_path]
    found = command(*words, "--tensorboard", "--no-quiet", "--every", 7, "--checkpoint-every", 8)
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
    command(*words)
    assert (given["progress"], given["every"], given["tensorboard_folder"]) == (False, 5, None)


def test_a_path_that_is_not_utf_8_is_kept_as_it_can_be():
    about = train.about({}, ["--out", "x\udce9", "a b"], torch.device("cpu"))
    assert about["command"] == "python -m unmasked train --out 'x?' 'a b'"


def test_another_process_than_the_first_is_silent(command, recipe, tmp_path, monkeypatch):
    @contextmanager
    def second(device):
        yield Processes(1, 2, device)

    monkeypatch.setattr(train, "processes", second)
    monkeypatch.setattr(train, "train", lambda *_, **__: None)
    found = command("train", "--config", recipe, "--out", tmp_path / "run")
    assert (found.status, found.out, found.err) == (0, "", "")
    assert not list((tmp_path / "run").iterdir())


def test_two_processes_train_what_one_does_and_only_the_first_writes(recipe, run, tmp_path):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = ["-m", "unmasked", "train", "--config", str(recipe), "--out", str(tmp_path / "two")]
    found = subprocess.run(
        [*launch, "--nproc-per-node", "2", *words], env=ENVIRONMENT, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("2 processes on cpu") == found.stdout.count("the model is in") == 1
    assert len(found.stdout.splitlines()) == 5
    one, two = (
        [line.split(",") for line in (folder / "history.csv").read_text().splitlines()]
        for folder in (run, tmp_path / "two")
    )
    assert one[0] == two[0] == ["step", "loss", "norm", "rate", "seconds"]
    for a, b in zip(one[1:], two[1:], strict=True):
        assert [float(x) for x in a[:4]] == pytest.approx([float(x) for x in b[:4]], rel=1e-5)
    assert len(list((tmp_path / "two" / "checkpoints").iterdir())) == 1
    assert Translator.load(tmp_path / "two").about["recipe"]["training"]["steps"] == 10


# --- translate --------------------------------------------------------------------------------


def test_sentences_are_translated_in_their_order(command, run):
    made = Translator.load(run)
    one, two, three = made.source.words[5:8]
    texts = [f"{one} {two}", three, f"{two} {one} {three}"]
    for more, beam_size in ([], 1), (["--beam", 3], 3):
        expected = made.translate(texts, beam_size=beam_size)
        found = command("translate", "--model", run, "--device", "cpu", *more, *texts)
        assert (found.status, found.err) == (0, "")
        assert found.out.splitlines() == expected


def test_lines_are_translated_and_empty_ones_stay(command, run):
    one, two = known_words(run, 2)
    lines = f"\ufeff{one}\r\n\n  \n{two} {one}".encode()  # as some editors write it
    found = command("translate", "--model", run, stdin=lines)
    assert found.status == 0
    both = Translator.load(run).translate([one, f"{two} {one}"])
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
    command("translate", "--model", run, "--beam", 2, "--length-penalty", "0.1")
    assert given == {"beam_size": 2, "length_penalty": 0.1, "progress": True}


# --- evaluate ---------------------------------------------------------------------------------


def test_an_evaluation_counts_and_says_what_it_left_out(command, run):
    found = command("evaluate", "--model", run, "--sentences", 60, "--device", "cpu")
    assert found.status == 0
    first, second, *rows, last = found.out.splitlines()
    left = int(re.fullmatch(r"left out, for words that the model does not know: (\d+)", first)[1])
    assert second == "translated without a mistake:"
    counts = dict(re.fullmatch(r"  (.+?) +\d+ of (\d+), [\d.]+ %", row).groups() for row in rows)
    whole = int(counts.pop("all"))
    assert whole == 60 - left == sum(map(int, counts.values()))
    assert re.fullmatch(
        r"last layer's strongest source word is an aligned one: \d+ of \d+, [\d.]+ %", last
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
    assert "  all            20 of 20, 100.0 %\n" in found.out
    assert given["beam_size"] == 4


# --- info -------------------------------------------------------------------------------------


def test_info_says_what_the_folder_holds(command, run):
    found = command("info", run)
    assert found.status == 0
    made, size = Translator.load(run), (run / WEIGHTS).stat().st_size
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
    assert found["bytes"] == (run / WEIGHTS).stat().st_size


# --- A file instead of options ----------------------------------------------------------------


def test_a_file_holds_options_and_the_command_line_overrules_it(command, run, tmp_path):
    one, two = known_words(run, 2)
    path = tmp_path / "my.toml"
    table = {"model": str(run), "sentences": [one, two], "length-penalty": 1, "beam": 2}
    rows = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    text = "\n".join(["[translate]", *rows, "[info]", f'model = "{run}"', "json = true", ""])
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    made = Translator.load(run)
    found = command("translate", "--config", path)
    expected = made.translate([one, two], beam_size=2, length_penalty=1.0)
    assert found.out.splitlines() == expected
    found = command("translate", "--beam", 1, "--config", path, two)
    assert found.out.splitlines() == made.translate([two])
    assert json.loads(command("info", "--config", path).out)["config"]["d_model"] == 8
    assert command("info", "--config", path, "--no-json").out.startswith(f"{run}: ")


def test_a_file_holds_a_whole_training(command, tmp_path):
    path = tmp_path / "my.toml"
    more = f'out = "{tmp_path / "run"}"\nset = ["training.steps=2", "training.seed=3"]\n'
    path.write_text(TINY + more)
    assert command("train", "--config", path, "--set", "training.steps=1").status == 0
    recipe = Translator.load(tmp_path / "run").about["recipe"]
    assert recipe["training"] == {"steps": 1, "tokens": 60, "warmup": 2, "seed": 3}


# --- Mistakes ---------------------------------------------------------------------------------

SEE_HELP = "; a file takes what the command line takes: see --help"
NAMED = (
    "expected tables among [data], [model], [training], [train], [translate], [evaluate], [info]"
)


def in_file(name, line, message):
    """A mistake in the table of a command."""
    return (f"[{name}]\n{line}\n", [name], f"{{file}}: [{name}] {message}")


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        # --- files
        (None, ["info", "--config", "{tmp}/no.toml"],
         "{tmp}/no.toml: expected a TOML file, got No such file or directory; check the path"),
        (None, ["info", "--config", "{tmp}"],
         "{tmp}: expected a TOML file, got Is a directory; check the path"),
        ("[data", ["train"], "{file}: expected TOML, got "),
        ("b = 1\na = é", ["train"], "{file}: expected TOML, got Invalid value (at line 2, column "
         "5); mend what is there"),
        ("[models]\nd_ff = 8", ["evaluate"],
         f"{{file}}: {NAMED}, got [models]; put it under one of these"),
        ("steps = 8", ["train"], f"{{file}}: {NAMED}, got steps = 8; put it under one of these"),
        ("data = 'phrasebook'", ["train"], f"{{file}}: {NAMED}, got data = 'phrasebook'; put it "
         "under one of these"),
        ("[info]\ncolor = 1", ["info"], "{file}: [info]: expected options of info (json, model), "
         "got 'color'; take one of these"),
        in_file("evaluate", "sentences = 'many'",
                f"sentences: expected a whole number, got 'many'{SEE_HELP}"),
        in_file("evaluate", "sentences = 2.5",
                f"sentences: expected a whole number, got 2.5{SEE_HELP}"),
        in_file("evaluate", "beam = true", f"beam: expected a whole number, got True{SEE_HELP}"),
        in_file("evaluate", "test = 'news'",
                f"test: expected {' or '.join(evaluate.TESTS)}, got 'news'{SEE_HELP}"),
        in_file("evaluate", "model = ['a']", f"model: expected text, got ['a']{SEE_HELP}"),
        in_file("translate", "length_penalty = 'x'",
                f"length_penalty: expected a number, got 'x'{SEE_HELP}"),
        in_file("translate", "sentences = 'a'", "sentences: expected a list, got 'a'; write ['a']"),
        in_file("train", "quiet = 'no'", f"quiet: expected true or false, got 'no'{SEE_HELP}"),
        in_file("train", "preset = 'big'",
                f"preset: expected {' or '.join(PRESETS)}, got 'big'{SEE_HELP}"),
        in_file("train", "set = ['steps=5']", f"set: expected text, got 'steps=5'{SEE_HELP}"),
        # --- recipes
        ("", ["train"], "[data]: expected a name, such as phrasebook, got none; add name = … to "
         "[data]"),
        (TINY, ["train", "--set", "data.name=news"],
         "data.name: expected 'phrasebook' or 'multi30k', got 'news'; choose one of these"),
        (TINY, ["train", "--set", "data.cuont=5"],
         "[data] of phrasebook: expected 'count' or 'seed', got 'cuont'; choose one of these"),
        (TINY, ["train", "--set", "data.count=0"],
         "count: expected a whole number of at least 1, got 0; pass 1 or more"),
        (TINY, ["train", "--set", "training.step=5"],
         "[training]: expected keys of Recipe, got step; there are: "
         + ", ".join(Recipe.__dataclass_fields__)),
        (TINY, ["train", "--set", "model.heads=5"],
         "[model]: expected keys of TransformerConfig, got heads; there are: "
         + ", ".join(TransformerConfig.__dataclass_fields__)),
        (TINY.replace("steps = 10", 'steps = "many"'), ["train"],
         "steps: expected a whole number of at least 1, got 'many'; pass 1 or more"),
        (TINY, ["train", "--set", "model.n_heads=3"],
         "n_heads: expected a divisor of d_model=8, got 3; every head takes an equal share of the "
         "width"),
        (TINY, ["train", "--set", "training.tokens=2"], "max_tokens: expected room for the long"),
        (TINY, ["train", "--every", "0"],
         "--every: expected a whole number of at least 1, got 0; pass 1 or more"),
        (TINY, ["train", "--checkpoint-every", "-1"],
         "--checkpoint-every: expected a whole number of at least 1, got -1; pass 1 or more"),
        (TINY, ["train", "--out", "{file}"],
         "--out: expected a folder, got {file} (File exists); choose another"),
        (TINY, ["train", "--device", "quantum"], "--device: expected "),
        # --- models and sentences
        (None, ["translate", "--model", "{tmp}", "a"],
         "{tmp}: expected a folder with config.json and model.safetensors, got No such file or "
         "directory; give the folder that `python -m unmasked train` wrote"),
        (None, ["translate", "--model", "{run}", "{word}", "xyz"],
         "sentence 2: expected one of the {known} words that the model has learnt, got 'xyz'; "
         "write in lower case, with blanks around , and ?"),
        (None, ["translate", "--model", "{run}", "--beam", "0", "{word}"],
         "--beam: expected a whole number of at least 1, got 0; pass 1 or more"),
        (None, ["translate", "--model", "{run}", "--beam", "9999", "{word}"],
         "beam_size: expected at most the target vocabulary's "),
        (None, ["translate", "--model", "{run}", "--beam=2", "--length-penalty", "nan", "{word}"],
         "length_penalty: expected a number from 0 to 10, got nan; "),
        (None, ["translate", "--model", "{run}", "--device", "quantum", "{word}"],
         "--device: expected "),
        (None, ["evaluate", "--model", "{run}", "--device", "cuda:99"], "--device: expected "),
        (None, ["evaluate", "--model", "{run}", "--device", "meta"], "--device: expected "),
        (None, ["evaluate", "--model", "{run}", "--sentences", "0"],
         "--sentences: expected a whole number of at least 1, got 0; pass 1 or more"),
        (None, ["evaluate", "--model", "{run}", "--beam", "0"],
         "--beam: expected a whole number of at least 1, got 0; pass 1 or more"),
        (None, ["info", "{run}/checkpoints"],
         "{run}/checkpoints: expected a folder with config.json and model.safetensors, got No "
         "such file or directory; give the folder that `python -m unmasked train` wrote"),
    ],
)  # fmt: skip
def test_mistakes_are_said_in_one_line(command, run, tmp_path, text, words, message):
    places = {"file": tmp_path / "my.toml", "tmp": tmp_path, "run": run}
    places |= {"word": known_words(run)[0], "known": len(Translator.load(run).source)}
    given = [word.format(**places) for word in words]
    if text is not None:
        places["file"].write_text(text, encoding="utf-8")
        given += ["--config", str(places["file"])]
        if words[0] == "train" and "--out" not in words:
            given += ["--out", str(tmp_path / "out"), "--quiet"]
    found = command(*given)
    assert found.status == 1
    expected = f"python -m unmasked {words[0]}: {message.format(**places)}"
    assert found.err.startswith(expected)
    assert found.err.count("\n") == 1
    assert "; " in found.err


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
    assert found.err == (
        "python -m unmasked evaluate: --sentences: expected sentences whose words the model knows, "
        "got none; take more of them, or train on more sentences\n"
    )


def test_the_best_device_unless_another_is_named(monkeypatch):
    monkeypatch.setattr(options, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    assert options.chosen_device(None) == torch.device("cuda")
    assert options.chosen_device("cuda:1") == torch.device("cuda:1")
    assert options.chosen_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="--device: expected cuda or cpu, got 'cuda:2'; leave it"):
        options.chosen_device("cuda:2")


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


def test_the_package_can_be_run(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["unmasked", "--version"])
    monkeypatch.delitem(sys.modules, "unmasked.__main__")
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("unmasked", run_name="__main__")
    assert capsys.readouterr().out == f"unmasked {__version__}\n"


def test_python_m_unmasked_ends_with_the_right_status():
    found = module("--help")
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout.startswith(b"usage: python -m unmasked")
