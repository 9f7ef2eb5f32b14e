"""Tests trainings on two files of text, from reading them to the model in the folder."""

import csv
import gzip
import sys

import pytest

from helpers import same_tensors
from helpers.refusals import refusals
from helpers.side_by_side import command, together
from helpers.small_training import stopping_at
from unmasked import Recipe, cli, load, train_files
from unmasked.evaluation import mean_cross_entropy
from unmasked.storage.model import MODEL
from unmasked.storage.weights import tensors_of
from unmasked.text import sources
from unmasked.text.corpus import StreamedCorpus, lines_of
from unmasked.text.phrasebook import sentence_pairs
from unmasked.text.sources import load_data
from unmasked.training import run as running
from unmasked.training.run import sized
from unmasked.training.trainer import CHECKPOINT

TEXTS = [(p.german.capitalize(), p.english.capitalize()) for p in sentence_pairs(400)]
PAIRS = list(dict.fromkeys(TEXTS))[:300]
BROKEN = [("", "Empty."), ("Leer.", " \t"), ("Lang " * 50, "Long")]
CONFIG = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8}
RECIPE = {"steps": 8, "tokens": 200, "warmup": 4}
DATA = {"vocabulary": 150, "max_length": 40}
TABLES = {"data": DATA, "model": CONFIG, "training": RECIPE}
WORDS = [
    word for table in TABLES for key, value in TABLES[table].items()
    for word in ("--set", f"{table}.{key}={value}")
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory):
    """Writes train.de, train.en and so on, plain and packed, and files that are refused."""
    path = tmp_path_factory.mktemp("text")
    parts = {"train": BROKEN + PAIRS[:40], "valid": PAIRS[40:50], "test": PAIRS[50:60],
             "more": PAIRS[60:] + PAIRS[60:80]}  # fmt: skip
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


def trained(out, valid=("valid.de", "valid.en"), recipe=None, **changes):
    options = {"config": CONFIG, **DATA, "device": "cpu", "progress": False, **changes}
    name = "train" if valid else "more"
    recipe = {**RECIPE, **(recipe or {})}
    files = f"{name}.de", f"{name}.en.gz"
    return train_files(*files, valid=valid, out=out, recipe=recipe, **options)


def rows(out):
    """Reads the history in a folder, without the times."""
    with (out / "history.csv").open() as file:
        return [{**row, "seconds": ""} for row in csv.DictReader(file)]


def test_the_best_model_of_two_files_stands_in_the_folder(tmp_path, capsys):
    made = trained(tmp_path)
    out = capsys.readouterr().out
    kept = {".training.lock", CHECKPOINT, "history.csv", "history.png", MODEL}
    assert {path.name for path in tmp_path.iterdir()} == kept
    for said in ("43 pairs, 2 left out for an empty", "training: left out 1 of", "40 pairs, 1 ",
                 "s a step", "step 8 of 8, epoch ", "perplexity", "BLEU", "tokens/s"):  # fmt: skip
        assert said in out
    assert "".join(made.target.pieces("The Dog")).startswith("▁The")
    data = of_files("train.de", "train.en", valid=["valid.de", "valid.en"])()
    best = made.about["best"]
    assert mean_cross_entropy(made.model, made.corpus(data.validation)) == best["validation"]
    history = rows(tmp_path)
    assert len(history) == 9
    assert min(float(row["validation"]) for row in history) == best["validation"]


def test_a_stopped_training_on_files_goes_on_with_the_same_bits_and_then_further(tmp_path):
    trained(tmp_path / "whole", valid=None)
    for step in (0, 5):
        with stopping_at(step), pytest.raises(KeyboardInterrupt):
            trained(tmp_path / "parts", valid=None, resume=True)
    trained(tmp_path / "parts", valid=None, resume=True)
    whole, parts = (tmp_path / name for name in ("whole", "parts"))
    assert same_tensors(*(tensors_of(load(out).model) for out in (whole, parts)))
    assert rows(whole) == rows(parts)
    trained(parts, valid=None, resume=True, recipe={"steps": 12})
    assert rows(parts)[:9] == rows(whole)
    assert rows(parts)[-1]["step"] == "12"
    with pytest.raises(ValueError, match=r"^steps: expected at least the 12 of .*, got 8; "):
        trained(parts, valid=None, resume=True)


def test_other_texts_to_validate_with_are_another_training(tmp_path):
    """Guards against comparing validation losses of different texts."""
    trained(tmp_path)
    with pytest.raises(ValueError, match=r"^resume: expected validation="):
        trained(tmp_path, valid=("test.de", "test.en"), resume=True)


def test_training_goes_on_from_a_model_in_its_words_and_leaves_it_as_it_was(tmp_path, capsys):
    begun = trained(tmp_path / "begun")
    before = {name: x.clone() for name, x in tensors_of(begun.model).items()}
    begun.about["length_penalty"] = 1.25
    options = {"device": "cpu", "progress": False, "out": tmp_path / "on"}
    recipe = Recipe(steps=4, rate=3e-4, warmup=40)
    made = train_files("more.de", "more.en", start=begun, recipe=recipe, **options)
    assert made.about["recipe"]["training"]["beta2"] == 0.98
    assert "before the first step: perplexity" in capsys.readouterr().out
    assert made.source.to_json() == begun.source.to_json()
    assert made.model.config == begun.model.config
    assert made.about["length_penalty"] == 1.25
    assert same_tensors(tensors_of(begun.model), before)
    first, *_, last = rows(tmp_path / "on")
    assert float(last["validation"]) < float(first["validation"])
    begun.save(tmp_path / "begun.safetensors")
    with pytest.raises(ValueError, match=r"^config: expected none beside start, got one; "):
        train_files("more.de", "more.en", start=begun, config={"d_ff": 9}, **options)


def test_patience_ends_it_and_the_best_is_kept(tmp_path, monkeypatch, capsys):
    losses = iter([9.0, 5.0, 3.0, 4.0, 3.0])
    monkeypatch.setattr(running, "mean_cross_entropy", lambda *_: next(losses))
    for resume in (False, True):  # it has ended, and stays so
        assert trained(tmp_path, recipe={"patience": 2}, resume=resume).about["best"]["step"] == 2
        assert "ended: 2 validations" in capsys.readouterr().out


def test_two_processes_end_together_and_only_the_first_writes(tmp_path):
    files = ["--train", "more.de", "more.en", "--patience", "1", "--device", "cpu", "--quiet"]
    words, said = ["train", *files, "--out", str(tmp_path / "two"), *WORDS], tmp_path / "said"
    said.mkdir()
    together(2, command, words, said)
    printed = "".join(file.read_text() for file in said.iterdir())
    assert printed.count("2 processes on cpu") == printed.count("the model is in") == 1


def test_from_nothing_to_a_translation_a_score_and_further_by_the_shell(
    tmp_path, monkeypatch, capsys
):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["__main__.py", *map(str, words)])
        cli.main()
        return capsys.readouterr().out

    out, new = tmp_path / "mine", tmp_path / "new.en.gz"
    call("train", "--train", "more.de", "more.en", "--out", out, "--quiet", *WORDS)
    scores = call("evaluate", "--model", out, "--test", "test.de.gz", "test.en", "--beam", 2)
    assert scores.startswith("beam 2  BLEU ")
    assert scores.count("±") == 2
    assert "10 sentences; nrefs:1|case:mixed" in scores
    call("translate", "--model", out, "--input", "test.de", "--output", new)
    assert list(lines_of(new)) == load(out).translate(list(lines_of("test.de")))
    with pytest.raises(SystemExit, match=r"--test: expected two files, .*, got none; "):
        call("evaluate", "--model", out)
    call("train", "--out", out, "--resume", "--steps", 10, "--quiet")
    assert rows(out)[-1]["step"] == "10"
    on = tmp_path / "on"
    call("train", "--train", "more.de", "more.en", "--from", out, "--out", on, "--steps", 2)
    assert call("train", "--out", on, "--resume", "--steps", 3).count("from its checkpoint") == 1
    assert load(on).about["start"] == str(out)


# --- What is held out, and what is not in memory ----------------------------------------------


def test_what_is_held_out_is_drawn_from_distinct_pairs_by_a_seed():
    held = [of_files("more.de", "more.en", seed=seed, lowercase=True)() for seed in (0, 0, 1)]
    for data in held:
        assert len(data.validation) == 24
        assert sorted({*data.training, *data.validation}) == sorted(set(PAIRS[60:]))
        assert not {*data.training} & {*data.validation}
        assert data.source.lowercase
    assert held[0].validation == held[1].validation != held[2].validation
    assert held[0].notes[1] == "validation: 24 of them, drawn by the seed 0"


@pytest.mark.parametrize(("pairs", "count"), [(2000, 200), (15_000, 200), (30_000, 300)])
def test_a_tenth_or_two_hundred_or_a_hundredth(tmp_path, pairs, count):
    for side in ("a", "b"):
        (tmp_path / side).write_text("".join(f"{side} {n}\n" for n in range(pairs)))
    texts = sources.Texts("train", [str(tmp_path / side) for side in ("a", "b")])
    assert len(texts.hold_out(0)) == count
    assert sum(1 for _ in texts) == pairs - count


def test_files_that_memory_does_not_hold_are_read_as_the_training_goes(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(sources, "IN_MEMORY", 100)
    assert isinstance(of_files("more.de", "more.en")().corpus(), StreamedCorpus)
    trained(tmp_path / "parts", valid=None)
    assert "read as it goes, 100 pairs at a time" in capsys.readouterr().out


def of_files(*names, seed=0, **options):
    return lambda: load_data("files", {"train": list(names), **options}, seed=seed)


test_what_cannot_be_read_is_refused = refusals(
    (of_files("latin.de", "train.en"), "latin.de, line 2: expected text in UTF-8, .* 0xf6 .* 4;"),
    (of_files("broken.gz", "train.en"), "broken.gz: expected a file that can be read"),
    (of_files("train.de"), "train: expected two files of text, got train.de"),
    (of_files("one", "one"), "train: expected at least two pairs of sentences, got 1"),
    (of_files("/dev/zero", "one"), "/dev/zero: expected a file, as it is read several times"),
    (of_files("train.de", "train.en"), "train.de and train.en: expected 200 distinct .*, got 41"),
    (of_files("long", "long", max_length=2, valid=["long", "long"]), "validation: expected a pair"),
    (lambda: sized(sized({"data": {}, "model": {}, "training": {}}), "tiny"), "size: expected fil"),
    (lambda: trained("x", size="huge"), "size: expected 'tiny' or 'small' or 'base'"),
    (lambda: trained("x", recipe={"lr": 0.1}), "training: expected keys of Recipe, got lr; there"),
)
