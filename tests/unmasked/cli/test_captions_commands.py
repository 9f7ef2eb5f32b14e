"""Tests the commands on captions, with subwords and BLEU."""

import re
import sys

import pytest

from unmasked import loss
from unmasked.cli import evaluate, main
from unmasked.evaluation import bleu
from unmasked.text import sources
from unmasked.text.sources import directed, load_data
from unmasked.tokens import Subwords
from unmasked.translator import Translator
from unmasked_book.captions import CAPTIONS

PAIRS = [(caption.german, caption.english) for caption in CAPTIONS]
TINY = ["data.vocabulary=200", "model.d_model=8", "model.n_heads=2", "model.n_layers=1",
        "model.d_ff=8", "training.steps=4", "training.tokens=300", "training.warmup=2"]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def own_captions():
    """Puts captions of our own in the place of Multi30k's."""

    def fake(split="train"):
        return {"train": PAIRS[:60], "val": PAIRS[60:70]}.get(split, PAIRS[70:])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "multi30k", fake)
        patch.setattr(evaluate, "multi30k", fake)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Trains in bfloat16, as the preset says, and computes the loss in parts."""
    folder = tmp_path_factory.mktemp("captions") / "run"
    settings = [word for change in TINY for word in ("--set", change)]
    given = ["--preset", "multi30k-en-de", "--out", str(folder), "--device", "cpu", "--every", "2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss, "MANY", 0)
        patch.setattr(sys, "argv", ["__main__.py", "train", *given, "--quiet", *settings])
        main()
    return folder


def test_the_data_is_in_the_direction_that_is_asked_for_its_subwords_of_the_training_set_alone():
    data = load_data("multi30k", {"source": "en", "target": "de", "vocabulary": 200})
    assert data.training[0] == (CAPTIONS[0].english, CAPTIONS[0].german)
    assert data.validation == [(english, german) for german, english in PAIRS[60:70]]
    assert data.source is data.target
    assert directed(PAIRS[:1], "de", "en") == PAIRS[:1]
    text = [sentence for pair in zip(*PAIRS[:60], strict=True) for sentence in pair]
    assert data.source.to_json() == Subwords.of(text, 200).to_json()


def test_a_model_in_subwords_comes_back_from_its_folder(run, tmp_path):
    made = Translator.load(run)
    assert made.source is made.target
    assert made.languages == ("en", "de")
    made.target = Subwords.from_json(made.source.to_json())
    with pytest.raises(ValueError, match=r"^target: expected the source's own subwords"):
        made.save(tmp_path / "two.safetensors")
    assert not (tmp_path / "two.safetensors").exists()  # two vocabularies are not kept


# --- Scores -----------------------------------------------------------------------------------


def test_evaluating_prints_both_searches_and_the_signature(run, monkeypatch, capsys):
    def scored(*words):
        monkeypatch.setattr(sys, "argv", ["__main__.py", "evaluate", "--model", str(run), *words])
        main()
        return capsys.readouterr().out

    made = Translator.load(run)
    source, target = zip(*directed(PAIRS[70:], "en", "de"), strict=True)
    expected = [bleu(made.translate(source, beam_size=size), target) for size in (1, 5)]
    out = scored()
    found = re.findall(r"^(greedy|beam 5) +BLEU (\S+); chrF \d+\.\d\d$", out, re.MULTILINE)
    assert found == [("greedy", str(expected[0])), ("beam 5", str(expected[1]))]
    assert f"test_2016_flickr, 10 sentences; {expected[0].signature}" in out
    few = scored("--test", "val", "--beam", "3", "--length-penalty", "1.5", "--sentences", "4")
    assert re.match(r"beam 3 +BLEU \d+\.\d\d; chrF \d+\.\d\d\nval, 4 sentences; ", few)
