"""The commands on captions: trained in subwords, and scored with BLEU."""

import re
import sys

import pytest
import torch

from unmasked import loss
from unmasked.cli import evaluate, main
from unmasked.evaluation import bleu
from unmasked.storage.files import read_tensors
from unmasked.storage.model import CONFIG, files_of, weights_file
from unmasked.text import sources
from unmasked.text.sources import directed, load_data
from unmasked.tokens import Subwords
from unmasked.translator import MODELS, Translator
from unmasked_book.captions import CAPTIONS

PAIRS = [(caption.german, caption.english) for caption in CAPTIONS]
TINY = ["data.vocabulary=200", "model.d_model=8", "model.n_heads=2", "model.n_layers=1",
        "model.d_ff=8", "training.steps=4", "training.tokens=300", "training.warmup=2"]  # fmt: skip


def fake(split="train"):
    """Our own captions in the place of Multi30k's."""
    return {"train": PAIRS[:60], "val": PAIRS[60:70]}.get(split, PAIRS[70:])


@pytest.fixture(autouse=True)
def own_captions(monkeypatch):
    monkeypatch.setattr(sources, "multi30k", fake)
    monkeypatch.setattr(evaluate, "multi30k", fake)


@pytest.fixture
def call(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["__main__.py", *map(str, words)])
        capsys.readouterr()
        main()
        return capsys.readouterr().out

    return run


def train(call, folder, name="en-de"):
    settings = [word for change in TINY for word in ("--set", change)]
    given = ["--preset", f"multi30k-{name}", "--out", folder, "--device", "cpu", "--every", 2]
    return call("train", *given, "--quiet", *settings)


def test_the_data_is_in_the_direction_that_is_asked_for():
    data = load_data("multi30k", source="en", target="de", vocabulary=200)
    assert data.training[0] == (CAPTIONS[0].english, CAPTIONS[0].german)
    assert data.validation == [(english, german) for german, english in PAIRS[60:70]]
    assert data.source is data.target
    assert directed(PAIRS[:1], "de", "en") == PAIRS[:1]


def test_subwords_are_learnt_from_the_training_set_alone():
    data = load_data("multi30k", vocabulary=200)
    text = [sentence for pair in zip(*PAIRS[:60], strict=True) for sentence in pair]
    assert data.source.to_json() == Subwords.of(text, 200).to_json()


@pytest.mark.parametrize(("source", "said"), [("en", "en and en"), (["de"], r"\['de'\] and en")])
def test_two_languages_must_be_those_of_the_data_before_it_is_downloaded(monkeypatch, source, said):
    monkeypatch.setattr("unmasked.text.sources.multi30k", None)
    with pytest.raises(ValueError, match=rf"^source and target: .*, got {said}; choose de and en"):
        load_data("multi30k", source=source, target="en", vocabulary=200)


def test_a_training_notes_its_validation_loss(tmp_path, call):
    out = train(call, tmp_path / "run")
    assert "validation" in out
    rows = [line.split(",") for line in (tmp_path / "run/history.csv").read_text().splitlines()]
    column = [row[rows[0].index("validation")] for row in rows[1:]]
    assert len(column) == 3  # before the first step, and after every second one
    assert all(4 < float(value) < 8 for value in column)


def test_a_model_in_subwords_comes_back_from_its_folder(tmp_path, call):
    train(call, tmp_path / "run")
    made = Translator.load(tmp_path / "run")
    assert made.source is made.target
    assert made.languages == ("en", "de")
    assert made.about["machine"]["torch"] == torch.__version__
    short = {"recipe": {"data": {"name": "multi30k"}}}  # its defaults
    assert Translator(made.model, made.source, made.target, short).languages == ("de", "en")
    made.save(tmp_path / "half", dtype=torch.float16)
    half, whole = (read_tensors(weights_file(tmp_path / name)) for name in ("half", "run"))
    assert half.keys() == whole.keys()
    for name, tensor in whole.items():
        assert half[name].dtype == torch.float16
        assert torch.equal(half[name], tensor.half())
    again = Translator.load(tmp_path / "half")
    assert next(again.model.parameters()).dtype == torch.float32
    texts = [english for _, english in PAIRS[:5]]
    assert again.source.to_json() == made.source.to_json()
    assert again.tokens(texts).tolist() == made.tokens(texts).tolist()


def test_two_trainings_with_a_seed_give_the_same_weights(tmp_path, call, monkeypatch):
    """In bfloat16, as the preset says, and with the loss in parts."""
    monkeypatch.setattr(loss, "MANY", 0)
    for name in ("one", "two"):
        train(call, tmp_path / name)
    first, second = (weights_file(tmp_path / name).read_bytes() for name in ("one", "two"))
    assert first == second


def test_a_folder_with_a_damaged_file_is_refused(tmp_path, call):
    train(call, tmp_path / "run")
    files = [tmp_path / "run" / CONFIG, *files_of(tmp_path / "run")]
    assert {file.name.split("-")[0] for file in files} == {CONFIG, "model", "tokenizer"}
    for path in files:
        right = path.read_bytes()
        path.write_bytes(right[:-20])
        with pytest.raises(ValueError, match="its files are damaged or of another version"):
            Translator.load(tmp_path / "run")
        path.write_bytes(right)
    assert Translator.load(tmp_path / "run").languages == ("en", "de")


def test_two_different_vocabularies_of_subwords_are_not_kept(tmp_path, call):
    train(call, tmp_path / "run")
    made = Translator.load(tmp_path / "run")
    made.target = Subwords.from_json(made.source.to_json())
    with pytest.raises(ValueError, match=r"^target: expected the source's own subwords"):
        made.save(tmp_path / "two")
    assert not (tmp_path / "two").exists()


# --- Scores -----------------------------------------------------------------------------------


def test_evaluating_prints_both_searches_and_the_signature(tmp_path, call):
    train(call, tmp_path / "run")
    made = Translator.load(tmp_path / "run")
    source, target = zip(*directed(fake("test_2016_flickr"), "en", "de"), strict=True)
    expected = [bleu(made.translate(source, beam_size=size), target) for size in (1, 5)]
    out = call("evaluate", "--model", tmp_path / "run")
    assert re.findall(r"^(greedy|beam 5) +BLEU (\S+); chrF \d+\.\d\d$", out, re.MULTILINE) == [
        ("greedy", str(expected[0])), ("beam 5", str(expected[1])),
    ]  # fmt: skip
    assert f"test_2016_flickr, 10 sentences; {expected[0].signature}" in out


def test_one_search_some_sentences_and_another_set(tmp_path, call):
    train(call, tmp_path / "run")
    words = ["--test", "val", "--beam", 3, "--length-penalty", 1.5, "--sentences", 4]
    out = call("evaluate", "--model", tmp_path / "run", *words)
    assert re.match(r"beam 3 +BLEU \d+\.\d\d; chrF \d+\.\d\d\nval, 4 sentences; ", out)


def test_the_published_score_stands_beside_the_one_that_was_found(tmp_path, call):
    train(call, tmp_path / "run")
    made = Translator.load(tmp_path / "run")
    made.about["scores"] = {"val": {"greedy": 12.34}}
    made.save(tmp_path / "run")
    out = call("evaluate", "--model", tmp_path / "run", "--test", "val")
    assert re.search(r"^greedy +BLEU \S+, published 12.34; chrF \d+\.\d\d$", out, re.MULTILINE)
    assert re.search(r"^beam 5 +BLEU \S+; chrF \S+$", out, re.MULTILINE)
    few = call("evaluate", "--model", tmp_path / "run", "--test", "val", "--sentences", 3)
    assert "published" not in few  # it is of all sentences


def test_captions_are_not_for_a_model_of_the_phrasebook(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluate, "load", lambda _: Translator.load(MODELS / "en-de"))
    monkeypatch.setattr(Translator, "languages", None)
    with pytest.raises(
        ValueError, match=r"^--test: expected phrasebook, for a model of it, got val"
    ):
        evaluate.main(["--model", str(tmp_path), "--test", "val"])


def test_the_phrasebook_is_not_for_a_model_of_captions():
    with pytest.raises(
        ValueError, match=r"^--test: expected one of Multi30k's sets, got phrasebook"
    ):
        evaluate.main(["--model", "en-de", "--test", "phrasebook"])
