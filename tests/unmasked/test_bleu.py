"""BLEU is sacreBLEU's, and says how it was computed."""

import sys

import pytest
from sacrebleu.metrics import BLEU

from unmasked.evaluation import bleu

WRITTEN = ["a dog runs across the meadow .", "two women drink tea in a garden"]
WANTED = ["a dog runs over the green meadow .", "two women drink tea in a small garden"]


def test_the_score_is_sacrebleus():
    found = bleu(WRITTEN, WANTED)
    assert found.score == BLEU(lowercase=True).corpus_score(WRITTEN, [WANTED]).score
    assert 20 < found.score < 80
    assert str(found) == f"{found.score:.2f}"


def test_the_signature_says_how():
    signature = bleu(WRITTEN, WANTED).signature
    for part in ("nrefs:1", "case:lc", "tok:13a", "version:"):
        assert part in signature


def test_case_does_not_count_and_words_do():
    assert bleu([text.upper() for text in WANTED], WANTED).score == pytest.approx(100)
    assert bleu([text.replace("women", "men") for text in WANTED], WANTED).score < 95


def test_the_interval_is_that_of_sentences_drawn_again():
    written, wanted = WRITTEN * 20, WANTED * 20
    found = bleu(written, wanted, draws=200)
    assert found[:2] == bleu(written, wanted)[:2]
    few = bleu(written[:4], wanted[:4], draws=200)
    assert 0 < found.interval < few.interval
    assert bleu(written, wanted).interval is None
    with pytest.raises(ValueError, match=r"^draws: "):
        bleu(written, wanted, draws=1)


@pytest.mark.parametrize(("written", "wanted"), [([], []), (WRITTEN, WANTED[:1])])
def test_each_translation_needs_its_reference(written, wanted):
    with pytest.raises(ValueError, match=r"^written: expected as many translations as references"):
        bleu(written, wanted)


def test_without_sacrebleu_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(ValueError, match=r'pip install "unmasked\[text\]"'):
        bleu(WRITTEN, WANTED)
