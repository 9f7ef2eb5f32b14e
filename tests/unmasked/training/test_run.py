"""A translator from two files of text: what is read, kept, ended, resumed, shared out and said."""

import csv
import gzip
import sys
from types import SimpleNamespace

import pytest

from helpers.refusals import refusals
from helpers.side_by_side import command, together
from helpers.small_training import stopping_at
from unmasked import cli, load, train_files
from unmasked.evaluation import bleu, mean_cross_entropy
from unmasked.storage.model import weights_file
from unmasked.text.corpus import lines_of
from unmasked.text.phrasebook import sentence_pairs
from unmasked.text.sources import load_data
from unmasked.training import run as running
from unmasked.training.run import sized

PAIRS = [(p.german.capitalize(), p.english.capitalize()) for p in sentence_pairs(60)]
BROKEN = [("", "Empty."), ("Leer.", " \t"), ("Lang " * 50, "Long")]
SETTINGS = {
    "data": {"vocabulary": 150, "max_length": 40},
    "model": {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8},
    "training": {"steps": 8, "tokens": 200, "warmup": 4},
}
WORDS = [
    word for table in SETTINGS for key, value in SETTINGS[table].items()
    for word in ("--set", f"{table}.{key}={value}")
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory):
    """With train.de, train.en and so on, some of it packed."""
    path = tmp_path_factory.mktemp("text")
    parts = {"train": BROKEN + PAIRS[:40], "valid": PAIRS[40:50], "test": PAIRS[50:]}
    for name, pairs in parts.items():
        for side, texts in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
            data = "".join(f"{text}\n" for text in texts).encode()
            (path / f"{name}.{side}").write_bytes(data)
            (path / f"{name}.{side}.gz").write_bytes(gzip.compress(data))
    (path / "latin.de").write_bytes("Hund\nschön\n".encode("latin-1"))
    (path / "broken.gz").write_bytes(b"\x1f\x8bno")
    (path / "one").write_text("Hund\n")
    (path / "long").write_text("a b c d\n" * 9)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        yield path


def trained(out, valid=("valid.de", "valid.en"), **changes):
    settings = {key: value for table in SETTINGS.values() for key, value in table.items()}
    options = {"device": "cpu", "progress": False, **settings, **changes}
    return train_files(("train.de", "train.en.gz"), valid, out=out, **options)


def rows(out):
    """Of its history, without the times."""
    with (out / "history.csv").open() as file:
        return [{**row, "seconds": ""} for row in csv.DictReader(file)]


def test_the_best_model_of_two_files_stands_in_the_folder(tmp_path, capsys):
    made = trained(tmp_path)
    out = capsys.readouterr().out
    kept = {"checkpoints", "config.json", "history.csv", "history.png", "model", "tokenizer"}
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} == kept
    for said in ("43 pairs, 2 left out for an empty", "training: left out 1 of", "40 pairs, 1 ",
                 "s a step", "step 8 of 8, epoch ", "perplexity", "BLEU", "tokens/s"):  # fmt: skip
        assert said in out
    assert "".join(made.target.pieces("The Dog")).startswith("▁The")
    data = load_data("files", train=["train.de", "train.en"], valid=["valid.de", "valid.en"])
    best = made.about["best"]
    assert mean_cross_entropy(made.model, made.corpus(data.validation)) == best["validation"]
    history = rows(tmp_path)
    assert len(history) == 9
    assert min(float(row["validation"]) for row in history) == best["validation"]


def test_a_stopped_training_on_files_goes_on_with_the_same_bits(tmp_path):
    trained(tmp_path / "whole", valid=None)
    for step in (0, 5):
        with stopping_at(step), pytest.raises(KeyboardInterrupt):
            trained(tmp_path / "parts", valid=None, resume=True)
    trained(tmp_path / "parts", valid=None, resume=True)
    whole, parts = (tmp_path / name for name in ("whole", "parts"))
    assert weights_file(whole).read_bytes() == weights_file(parts).read_bytes()
    assert rows(whole) == rows(parts)


def test_patience_ends_it_and_the_best_is_kept(tmp_path, monkeypatch, capsys):
    losses = iter([9.0, 5.0, 3.0, 4.0, 3.0])
    monkeypatch.setattr(running, "mean_cross_entropy", lambda *_: next(losses))
    for resume in (False, True):  # it has ended, and stays so
        assert trained(tmp_path, patience=2, resume=resume).about["best"]["step"] == 2
        assert "ended: 2 validations" in capsys.readouterr().out


def test_two_processes_end_together_and_only_the_first_writes(tmp_path):
    files = ["--train", "train.de", "train.en", "--patience", "1", "--device", "cpu", "--quiet"]
    words, said = ["train", *files, "--out", str(tmp_path / "two"), *WORDS], tmp_path / "said"
    said.mkdir()
    together(2, command, words, said)
    printed = "".join(file.read_text() for file in said.iterdir())
    assert printed.count("2 processes on cpu") == printed.count("the model is in") == 1
    trained(tmp_path / "one", valid=None, patience=1)
    numbers = [
        [float(row["validation"]) for row in rows(tmp_path / name)] for name in ("one", "two")
    ]
    assert numbers[1] == pytest.approx(numbers[0], rel=0.1)  # each has its own dropout


def test_from_nothing_to_a_translation_and_a_score_by_three_commands(tmp_path, monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["__main__.py", *map(str, words)])
        cli.main()
        return capsys.readouterr().out

    out, new = tmp_path / "mine", tmp_path / "new.en.gz"
    call("train", "--train", "train.de", "train.en", "--out", out, "--quiet", *WORDS)
    scores = call("evaluate", "--model", out, "--test", "test.de.gz", "test.en", "--beam", 2)
    assert scores.startswith("beam 2  BLEU ")
    assert scores.count("±") == 2
    assert "10 sentences; nrefs:1|case:mixed" in scores
    call("translate", "--model", out, "--input", "test.de", "--output", new)
    assert list(lines_of(new)) == load(out).translate(list(lines_of("test.de")))
    with pytest.raises(SystemExit, match=r"--test: expected two files, .*, got none; "):
        call("evaluate", "--model", out)


def test_what_was_held_out_is_the_last_hundredth():
    data = load_data("files", train=["train.de", "train.en"], max_length=40, lowercase=True)
    assert (data.training, data.validation) == (PAIRS[:39], PAIRS[39:40])
    assert data.source.lowercase
    assert "the last 1 of" in data.notes[1]
    assert bleu(["A dog"], ["a dog"], lowercase=False).signature.count("case:mixed")


def of_files(*names, **options):
    return lambda: load_data("files", train=list(names), **options)


test_what_cannot_be_read_is_refused = refusals(
    (of_files("latin.de", "train.en"), "latin.de, line 2: expected text in UTF-8, .* 0xf6 .* 4;"),
    (of_files("broken.gz", "train.en"), "broken.gz: expected a file that can be read"),
    (of_files("train.de"), "data.train: expected two files of text, got train.de"),
    (of_files("one", "one"), "data.train: expected at least two pairs of sentences, got 1"),
    (of_files("long", "long", max_length=2), "training: expected a pair of at most 2 tokens"),
    (lambda: sized(sized({"data": {}, "model": {}, "training": {}}), "tiny"), "--size: .* --train"),
    (lambda: trained("x", size="huge"), "size: expected 'tiny' or 'small' or 'base'"),
    (lambda: cli.COMMANDS["translate"].check_options(
        SimpleNamespace(beam=1, input="a", sentences=["b"])), "--input: expected no sentences"),
)  # fmt: skip
