"""Uses the workshop in a notebook, in a shell, as a teacher, and on a hunt."""

import csv
import json
import linecache
import re
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from unmasked import cli, plain
from unmasked.text.phrasebook import sentence_pairs
from unmasked.text.sources import phrasebook_data
from unmasked_book.workshop import attempt, finish, grading, hunt, hunting, save, solution, work
from unmasked_book.workshop.files import UNFINISHED, loaded
from unmasked_book.workshop.reference import STEPS, defined, text, whole
from unmasked_book.workshop.work import steps

START = UNFINISHED.read_text("utf-8")


@pytest.fixture
def said(capsys):
    """Returns what was printed since the last call."""
    return lambda: capsys.readouterr().out


def run(words):
    """Runs the command; returns True if it exits with 0."""
    argv = mock.patch("sys.argv", ["unmasked", "workshop", *words.split()])
    with argv, pytest.raises(SystemExit) as ended:
        cli.main()
    return not ended.value.code


def written(path, *names):
    """Writes the unfinished file, with some pieces as in plain.py."""
    source = START.replace("import math\n", "import math\nfrom typing import Self\n")
    for name in names:
        source = source.replace(defined(source, name), text(name))
    path.write_text(source, "utf-8")
    return path


def test_the_notebook_has_the_pieces_of_the_unfinished_file_and_every_step_has_three_hints():
    cells = json.loads(Path("book/workshop.ipynb").read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells]
    for step in STEPS:
        alone = f', "{step}"' * (step != STEPS[-1])
        assert f"{defined(START, step)}\n\n\nattempt(globals(){alone})" in code
        assert len(steps()[step]["hints"]) == 3


def test_what_is_right_is_counted_what_waits_is_passed_over_and_the_first_mistake_named(said):
    attempt({"causal_mask": plain.causal_mask, "loss": lambda *given: given[9:], "positions": ...})
    out = said()
    assert out.startswith("·✓········✗  1 of 11: causal_mask\n✗ loss: it returns a tuple")
    assert 'hint("loss")' in out
    attempt({step: getattr(plain, step) for step in STEPS} | {"attention": ...})
    words = '10 of 11.*\n· attention: your turn.*/03_attention.html.*solution."loss", globals'
    assert re.search(words, said(), re.DOTALL)
    attempt({"attention": ..., "loss": lambda *_: attention})  # noqa: F821
    assert "Not written yet: padding_mask, causal_mask, positions, attention" in said()


def test_what_is_written_so_far_learns_beside_ours(said, monkeypatch):
    monkeypatch.setattr(hunting, "STEPS_SHOWN", (1, 3))
    attempt({"causal_mask": plain.causal_mask}, "causal_mask", train=True)
    assert re.search(r"With your causal_mask, .*\n  step  1: █+ +5.\d \(5.\d\)\n  step  3", said())
    attempt({"loss": lambda *given: given / 0}, train=True)
    assert "  it stops with TypeError" in said()


def test_a_file_that_is_right_loads_trained_weights_and_learns(tmp_path, said, monkeypatch):
    file = written(tmp_path / "mine.py", *STEPS)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))  # as on Windows
    assert run(f"try {file}")
    assert re.search(r"(?s)11 of 11.*→ three ladies drinking coffee\.", said())
    monkeypatch.setattr(work, "phrasebook_data", partial(phrasebook_data, 2000))
    monkeypatch.setattr(work, "phrasebook_test", lambda _: sentence_pairs(20))
    translate = finish(str(file), 5, tmp_path / "mine.pt")
    assert "in 5 steps" in said()
    assert (tmp_path / "mine.pt").exists()
    answers = iter(["der hund schläft", "der xyz", ""])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    work.converse(translate)
    assert "words that the model has learnt, got 'xyz'" in said()
    finish({})
    assert "First all eleven have to be right" in said()


def test_from_start_to_hint_in_a_shell(tmp_path, said, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("start")
    written(Path("my_transformer.py"), "padding_mask")
    assert run("start")  # what is there stays
    assert not run("try")
    assert "unmasked workshop hint causal_mask" in said()
    assert run("hint causal_mask 3")
    assert "____" in said()
    assert run("solution padding_mask")
    assert said().startswith("# yours\ndef padding_mask")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, "there is no file .*unmasked workshop start"),
        ("def attention(:\n", "cannot be read: invalid syntax, in line 1: `def attention"),
        ("import nowhere\n", "ModuleNotFoundError: .*in line 1 of mine.py: `import nowhere`"),
        ("quit()\n", "stops with SystemExit"),
        ("import os\nos._exit(0)\n", "stops with SystemExit: 0, in line 2"),
        ("while True:\n try:\n  while True: pass\n except: pass\n", "was stopped after 0 seconds"),
        ("while True: pass\n", "mine.py was stopped after 0 seconds, in line 1"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_run_is_told_why(source, words, tmp_path, said, monkeypatch):
    monkeypatch.setattr("unmasked_book.workshop.files.SECONDS", 0.2)
    if source is not None:
        (tmp_path / "mine.py").write_text(source, "utf-8")
    attempt(str(tmp_path / "mine.py"))
    assert re.search(words, said())


def test_cells_become_a_file_and_the_file_before_it_is_kept(tmp_path, said):
    cell, names = "import torch\n\nALSO = 2\n\n\n" + text("causal_mask") + "\n\n\nprint(ALSO)\n", {}
    linecache.cache["<cell>"] = (len(cell), None, cell.splitlines(keepends=True), "<cell>")
    exec(compile(cell, "<cell>", "exec"), names | vars(plain), names)
    file, old = tmp_path / "mine.py", tmp_path / "mine.py.old"
    file.write_text("# other\n", "utf-8")
    for _ in range(2):  # what is equal is not kept
        save(names, file)
    assert "1 of 11" in said()
    assert vars(loaded(file))["ALSO"] == 2
    assert old.read_text("utf-8") == "# other\n"
    with pytest.raises(ValueError, match="the causal_mask that"):
        save({"causal_mask": ...}, file)  # as in a fresh kernel
    solution("causal_mask", names)
    assert "# yours" in said()


def test_a_hunt_says_what_it_was_only_when_it_is_mended(tmp_path, said, monkeypatch):
    monkeypatch.setattr(hunting, "STEPS_SHOWN", (1, 3))
    file = tmp_path / "hunted.py"
    hunt(seed=1, file=file)
    [mistake], _ = hunting.planted(1, 1)
    monkeypatch.setattr(hunting, "STEPS", (mistake.step,))  # the others take as long and are right
    assert mistake.words not in said()
    attempt(file)
    assert said().startswith("Not yet: its numbers are not right.\nunmasked.check")
    with pytest.raises(ValueError, match="a name that is free"):
        hunt(seed=1, file=file)
    file.write_text(hunting.HEAD.format(1, 1) + whole([]), "utf-8")
    attempt(file)
    assert f"{mistake.step}: {mistake.words}" in said()


def test_a_folder_is_graded_file_by_file_within_limits(tmp_path, said, monkeypatch):
    def limited(path, steps, alone=grading.alone):
        monkeypatch.setattr(grading, "SECONDS", 120 if path.name != "ben.py" else 1)
        return alone(path, steps)

    monkeypatch.setattr(grading, "alone", limited)
    written(tmp_path / "anna.py", "padding_mask")
    source = (tmp_path / "anna.py").read_text("utf-8").replace("tokens", "words")
    (tmp_path / "=cara.py").write_text(source + "import unmasked\n", "utf-8")
    (tmp_path / "json.py").write_text("raise SystemExit\n", "utf-8")
    (tmp_path / "ben.py").write_text("while True: pass\n", "utf-8")
    monkeypatch.chdir(tmp_path)  # nobody's json.py is imported
    assert run("grade . --steps padding_mask causal_mask")
    found = r"(?s)anna.py  + ✓·  1 of 2.*ben.py  + ✗✗  0 of 2  stopped after 1 seconds"
    assert re.search(found, said())
    rows = {}
    for name, key in (("grades", "file"), ("grades-pieces", "kind")):
        with Path(f"{name}.csv").open(encoding="utf-8") as table:
            rows |= {row[key]: row for row in csv.DictReader(table)}
    assert rows["anna.py"]["right"] == "1"
    assert rows["'=cara.py"]["flags"] == "imports unmasked"
    assert rows["anna.py"]["flags"] == "equal to '=cara.py but for names"
    assert rows["json.py"]["padding_mask"] == rows["ben.py"]["causal_mask"] == "error"
    assert rows["not begun"]["step"] == "causal_mask"
