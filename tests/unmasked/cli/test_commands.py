"""Tests `python -m unmasked` as users call it, and as those do who try to break it."""

import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import ANY, Mock

import pytest
import torch

from helpers import same_tensors, small_config
from helpers.crashes import listed
from unmasked import Transformer
from unmasked.cli import info, main, options, train, translate
from unmasked.storage import files
from unmasked.storage.model import MODEL
from unmasked.text.sources import phrasebook_test
from unmasked.tokens import SPECIAL, Words
from unmasked.training import run as running
from unmasked.training.recipe import Recipe
from unmasked.translator import Translator

TINY = """
data = {name = "phrasebook", count = 150}
model = {d_model = 8, n_heads = 2, n_layers = 1, d_ff = 8, dropout = 0.0}
training = {steps = 10, tokens = 60, warmup = 2}
"""
QUIETLY = "--quiet --device cpu --every 5"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Trains once, and returns the folder; the recipe is beside it."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "tiny.toml").write_text(TINY)
    with pytest.MonkeyPatch.context() as patch:
        line = f"train --config {folder}/tiny.toml --out {folder}/run {QUIETLY}"
        patch.setattr(sys, "argv", ["__main__.py", *shlex.split(line)])
        main()
    return folder / "run"


@pytest.fixture
def command(monkeypatch, capsys, tmp_path, run):
    """Runs a command in this process, in a folder with a recipe and a model."""
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "run").symlink_to(run)
    monkeypatch.chdir(tmp_path)

    def call(line, *words, stdin=b"", program="__main__.py"):
        monkeypatch.setattr(sys, "argv", [program, *shlex.split(line), *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "latin-1"))
        capsys.readouterr()
        status, last = 0, ""
        try:
            main()
        except SystemExit as stop:
            told = isinstance(stop.code, str)  # Python writes it, and ends with 1
            status, last = (1, f"{stop.code}\n") if told else (stop.code or 0, "")
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err + last)

    return call


@pytest.fixture(scope="module")
def words(run):
    """Returns words that the model knows."""
    return Translator.load(run).source.words[5:10]


# --- train ------------------------------------------------------------------------------------


def test_training_says_what_it_does_and_its_seed_decides_the_model(command, run, tmp_path):
    found = command(f"train --config tiny.toml --out new/run {QUIETLY}")
    assert (found.status, found.err) == (0, "")
    said = r'parameters, 150 pairs, 1 process on cpu\n(.*\n)+step 5 (.*\n)+.* info "new/run"'
    assert re.search(said, found.out)
    folder = tmp_path / "new" / "run"
    assert listed(folder) == ["checkpoint.safetensors", "history.csv", "history.png", MODEL]
    about = Translator.load(folder).about
    assert about["recipe"]["training"] == {"steps": 10, "tokens": 60, "warmup": 2}
    assert about["command"].startswith("python -m unmasked train --config ")
    assert same_tensors(*(files.read(each / MODEL)[0] for each in (folder, run)))
    command(f"train --config tiny.toml --out other --set training.seed=1 {QUIETLY}")
    assert not same_tensors(*(files.read(each / MODEL)[0] for each in (tmp_path / "other", run)))


def test_a_folder_that_holds_a_model_is_not_overwritten(command, run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "copy")
    line = f"train --config tiny.toml --out copy --set training.seed=1 {QUIETLY}"
    refused(command(line), "train", "out: expected a folder without a training.*resume th")
    (folder / "checkpoint.safetensors").unlink()
    for more in ("", " --resume"):
        refused(command(line + more), "train", "out: expected .*, got copy; choose another")
    assert (folder / MODEL).read_bytes() == (run / MODEL).read_bytes()


def test_settings_come_from_the_preset_then_the_file_then_the_command_line(tmp_path):
    """Reads, too, a file with a byte order mark; a value is TOML, or else text."""
    path = tmp_path / "my.toml"
    text = '[model]\nd_ff = 32\n[training]\nrate = "none"\nschedule = "paper"\nseed = 1\n'
    path.write_text(text, encoding="utf-8-sig")
    assigned = [train.assignment("training.seed=2")]
    options_of = partial(SimpleNamespace, train=None, size=None, start=None)
    recipe = train.tables(options_of(preset="phrasebook", config=path, set=assigned))
    assert (recipe["model"]["d_ff"], recipe["model"]["d_model"]) == (32, 64)
    made = running.build(Recipe, "training", recipe["training"])
    assert (made.rate, made.schedule, made.steps, made.seed) == (None, "paper", 1200, 2)
    for text, value in (("1e-3", 1e-3), ("pre", "pre"), ('"a=b"', "a=b"), ("true", True)):
        assert train.assignment(f"model.key={text}") == ("model", "key", value)


def test_options_reach_the_training(command, tmp_path, monkeypatch):
    stopped = Mock(side_effect=[FloatingPointError("the loss is nan"), KeyboardInterrupt])
    monkeypatch.setattr(running, "train", stopped)
    out = tmp_path / "new"
    line = f"train --config tiny.toml --out {out} --device cpu"
    found = command(f"{line} --every 7 --checkpoint-every 8 --resume")
    assert (found.status, found.err) == (1, "python -m unmasked train: the loss is nan\n")
    expected = {"folder": out, "device": torch.device("cpu"), "every": 7,
                "checkpoint_every": 8, "progress": True, "resume": True}  # fmt: skip
    assert stopped.call_args.kwargs.items() >= expected.items()
    found = command(f"{line} --quiet")
    assert stopped.call_args.kwargs.items() >= {"progress": False, "resume": False}.items()
    assert found.status == 130
    assert found.err.startswith("\npython -m unmasked train: stopped; --resume goes on")


# --- translate --------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "size"), [("", 1), ("--beam 3", 3)])
def test_sentences_stay_in_their_order_and_empty_lines_stay(command, run, words, more, size):
    one, two, three, *_ = words
    texts = [f"{one} {two}", three, f"{two} {one} {three}"]
    expected = Translator.load(run).translate(texts, beam_size=size)
    assert len(set(expected)) == 3
    found = command(f"translate --model run --device cpu {more}", *texts)
    assert (found.status, found.err, found.out.splitlines()) == (0, "", expected)
    lines = f"\ufeff{texts[0]}\r\n\n  \n{texts[2]}".encode()  # as some editors write it
    found = command(f"translate --model run {more}", stdin=lines)
    assert found.out.split("\n") == [expected[0], "", "", expected[2], ""]
    assert command("translate --model run").out == ""


def test_options_reach_the_search(command, words, monkeypatch):
    translated, sampled = Mock(return_value=["a"]), Mock(return_value=[["a"]])
    monkeypatch.setattr(Translator, "translate", translated)
    monkeypatch.setattr(Translator, "sample", sampled)
    given = {"prefix": None, "progress": True}
    command("translate --model run --beam 2 --length-penalty 0.1", words[0])
    translated.assert_called_once_with([words[0]], beam_size=2, length_penalty=0.1, **given)
    command("translate --model run --sample 4 --top-p 0.9 --seed 7 --prefix a", words[0])
    given["prefix"] = "a"
    sampled.assert_called_once_with([words[0]], 4, top_p=0.9, seed=ANY, **given)
    assert sampled.call_args.kwargs["seed"].initial_seed() == 7


def test_sampling_prints_lines_for_each_sentence_that_a_seed_decides(command, words, monkeypatch):
    """Includes an empty sentence, and portions, each of which has draws of its own."""
    line = "translate --model run --sample 3 --temperature 50 --top-k 9 --seed 1"
    text = f"{words[0]}\n\n{words[0]}\n".encode()
    for at_once in (1024, 1):
        monkeypatch.setattr(translate, "AT_ONCE", at_once)
        printed = command(line, stdin=text).out
        first, empty, second = (printed.split("\n")[i : i + 3] for i in (0, 3, 6))
        assert empty == [""] * 3
        assert first != second
        assert command(line, stdin=text).out == printed
        assert printed.count("\n") == 9


def test_what_is_translated_is_printed_while_the_rest_is_still_to_come(command, words, monkeypatch):
    stopped = Mock(side_effect=[["a", "b"], ["c", "d"], KeyboardInterrupt])
    monkeypatch.setattr(translate, "AT_ONCE", 4)
    monkeypatch.setattr(Translator, "translate", stopped)
    found = command("translate --model run --beam 2", *words)
    assert [call.args[0] for call in stopped.mock_calls] == [words[:2], words[2:4], words[4:]]
    assert (found.status, found.out) == (130, "a\nb\nc\nd\n")
    assert found.err == "\npython -m unmasked translate: stopped\n"


@pytest.mark.parametrize("option", ["", "--beam 2", "--sample 2"])
def test_a_word_cannot_command_the_terminal(command, option):
    small, red = Words.of(["a"]), Words([*SPECIAL.values(), "\x1b[31mred\ngreen\r\u2028"])
    sizes = {"source_vocab": len(small), "target_vocab": len(red)}
    model = Transformer(small_config(**sizes, output_bias=True))
    model.generator.bias.data[3] = 1e3  # it writes nothing else
    Translator(model, small, red).save("red.safetensors")
    found = command(f"translate --model red.safetensors {option} a")
    assert found.status == 0
    assert "red" in found.out
    assert "\x1b" not in found.out
    command(f"translate --model red.safetensors {option} --output lines a")
    assert len(Path("lines").read_text().splitlines()) == (2 if "sample" in option else 1)


# --- evaluate and info ------------------------------------------------------------------------


def knowing(pairs, folder):
    """Saves an untrained model that knows the words of these pairs."""
    words = [Words.of(pair[side] for pair in pairs) for side in (0, 1)]
    sizes = {"source_vocab": len(words[0]), "target_vocab": len(words[1])}
    Translator(Transformer(small_config(**sizes)), *words).save(f"{folder}/{MODEL}")


def test_an_evaluation_counts_what_is_right_and_says_what_it_left_out(command, monkeypatch):
    knowing(phrasebook_test(20), "perfect")
    english = {pair.german: pair.english for pair in phrasebook_test(60)}
    perfect = Mock(side_effect=lambda sentences, **_: [english[each] for each in sentences])
    monkeypatch.setattr(Translator, "translate", perfect)
    line = "evaluate --model perfect --test phrasebook --sentences"
    found = command(f"{line} 20 --beam 4 --length-penalty 5")
    assert "left out" not in found.out
    assert "  all            20 of 20, 100.0%\n" in found.out
    assert perfect.call_args.kwargs == {"beam_size": 4, "length_penalty": 5.0, "progress": True}
    found = command(f"{line} 60")
    left, whole = re.search(r"left out, .*: (\d+)\n(?s:.*)  all +\d+ of (\d+),", found.out).groups()
    assert int(left) + int(whole) == 60


def test_info_says_what_the_folder_holds(command, run):
    made, size = Translator.load(run), (run / MODEL).stat().st_size
    first, *rest = command("info run").out.splitlines()
    assert first == f"run: {made.model.count_parameters():,} parameters, {size:,} bytes"
    for line in ("model:", "  d_model: 8", "recipe:", "  data:", "    count: 150"):
        assert line in rest


# --- Mistakes ---------------------------------------------------------------------------------


def refused(found, name, message):
    """Asserts that a command ended with one line that says what is wrong and what to do."""
    assert (found.status, found.out) == (1, "")
    assert re.match(f"python -m unmasked {name}: {message}", found.err)
    assert re.search(r"; \w", found.err)
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train --config bad.toml", r"bad.toml: expected tables among .*, got \[models\]"),
        ("train --config none.toml", "none.toml: expected a TOML file, got No such file"),
        ("train --set training.step=5", "training: expected keys of Recipe, got step"),
        (f"train --set training.rate={5000 * '['}", r"rate: expected a number .*, got '\[\["),
        ("train --out tiny.toml", r"out: expected a folder, got tiny.toml \(File exists\)"),
        ("train --device quantum", "--device: expected .*, got 'quantum'"),
        ("translate --model . a", r"\.: expected a model's file, or the folder that"),
        ("translate --model '' a", "model: expected a file, .* de-en, en-de, got ''"),
        ("translate {word} xyz", "sentence 2: expected one of the "),
        ("translate {word} {word}\udcff", "sentence 2: expected text in Unicode"),
        ("translate", "standard input, line 1: expected text in UTF-8, got"),
        ("translate --input keep {word}", "--input: expected no sentences beside it, got "),
        ("translate --sample=2 --beam=4 {word}", "--sample: expected no --beam"),
        ("translate --beam 2 --seed 1 {word}", "--seed: expected --sample"),
        ("evaluate --length-penalty 1", "--length-penalty: expected"),
        ("evaluate --test val", "--test: expected phrasebook, for a model of it, or .*, got val"),
        ("evaluate --model en-de", "--test: expected one of Multi30k's sets.*, got phrasebook"),
        ("evaluate --sentences 5", "--sentences: expected .* knows, got none"),
        ("train --set training.tokens=5", "tokens: expected room for the "),
        ("train --from de-en", "start: expected files of yours beside it, got none"),
        ("translate --output keep --beam 9000 {word}", "beam_size: expected at most "),
        ("translate --output keep --input keep", "--output: expected another file than --input"),
        ("translate --output nodir/x {word}", "--output: expected a file in a folder that exi"),
        ("translate --output /dev/full {word}", "--output: expected a /dev/full that can be wri"),
        ("translate --input /dev/zero", "/dev/zero, line 1: expected less than 16,777,216 bytes"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(command, monkeypatch, words, line, message):
    monkeypatch.setattr(running, "train", lambda *_, **__: pytest.fail("it began"))
    knowing([("eins", "one")], "few")
    Path("bad.toml").write_text("[models]\nd_ff = 8")
    Path("keep").write_text("what was there")
    name, _, given = line.format(word=words[0]).partition(" ")
    usual = {"train": f"--config tiny.toml --out new {QUIETLY}", "translate": "--model run",
             "evaluate": "--model few --test phrasebook"}  # fmt: skip
    found = command(f"{name} {usual[name]} {given}", stdin=b"sch\xf6n")
    refused(found, name, message)
    assert Path("keep").read_text() == "what was there"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "expected a command: train, translate, evaluate, info"),
        ("train --out x", "give --preset (multi30k-de-en, multi30k-en-de, phrasebook) or --config"),
        ("train --out x --preset phrasebook --con y", "unrecognized arguments: --con y"),
        ("train --out x --set steps=5", "argument --set: 'steps=5' is not like training.steps=500"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_said_with_the_usage(command, line, message):
    for program, name in (("__main__.py", "python -m unmasked"), ("unmasked", "unmasked")):
        found = command(line, program=program)
        assert (found.status, found.out) == (2, "")
        assert found.err.startswith(f"usage: {name} ")
        assert message in found.err.splitlines()[-1]


def test_the_best_device_unless_another_is_named(monkeypatch):
    """Guards against counting GPUs where there is none: some builds of PyTorch raise an error."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: pytest.fail("counted"))
    assert options.chosen_device(None) == torch.device("cpu")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    for name, chosen in ((None, "cuda"), ("cuda:1", "cuda:1"), ("cpu", "cpu")):
        assert options.chosen_device(name) == torch.device(chosen)
    with pytest.raises(ValueError, match="--device: expected cuda or cpu, got 'cuda:2'"):
        options.chosen_device("cuda:2")


def test_too_little_memory_is_said_and_a_mistake_of_ours_is_shown(command, monkeypatch):
    said = "CUDA out of memory. Tried to allocate 9 GiB\nand much more"
    problems = RuntimeError(said), RuntimeError("a bug"), ValueError("a mistake")
    monkeypatch.setattr(info, "main", Mock(side_effect=problems))
    refused(command("info"), "info", r"not enough memory \(.* allocate 9 GiB\)")
    for line, problem in (("info", problems[1]), ("info --debug", problems[2])):
        with pytest.raises(type(problem), match=str(problem)):
            command(line)


# --- Other processes --------------------------------------------------------------------------


def test_ctrl_c_while_pytorch_is_imported_is_no_traceback():
    begun = subprocess.Popen([sys.executable, "-m", "unmasked", "--help"], stderr=subprocess.PIPE)
    maps = Path(f"/proc/{begun.pid}/maps")
    while "libtorch" not in maps.read_text():
        time.sleep(0.005)
    begun.send_signal(signal.SIGINT)
    assert (begun.communicate(timeout=60)[1], begun.returncode) == (b"", -signal.SIGINT)


def test_a_reader_that_leaves_early_ends_the_command_in_silence(command, tmp_path, monkeypatch):
    with (tmp_path / "file").open("w") as file, monkeypatch.context() as patch:
        left = Mock(write=Mock(side_effect=BrokenPipeError), fileno=file.fileno)
        patch.setattr(sys, "stdout", left)
        found = command("info run")
        assert os.path.samestat(os.fstat(file.fileno()), os.stat(os.devnull))  # for what is to come
    assert (found.status, found.err) == (1, "")


def test_what_is_written_is_utf_8_whatever_the_locale_says(run):
    """Runs the only process here that starts as a user's does."""
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "OMP_NUM_THREADS": "1"}
    call = [sys.executable, "-m", "unmasked", "translate", "--model", run, "größeres"]
    found = subprocess.run(call, capture_output=True, env=environment, timeout=100)
    assert (found.returncode, found.stdout) == (1, b"")
    assert "got 'größeres'; write in lower case" in found.stderr.decode("utf-8")
    assert found.stderr.count(b"\n") == 1
