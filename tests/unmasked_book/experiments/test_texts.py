"""Sentences of which none is there twice; and subwords that know the training only."""

import pytest

from unmasked_book.experiments import texts
from unmasked_book.experiments.texts import captions, phrasebook, prepared, sentences


@pytest.fixture(autouse=True)
def few(monkeypatch):
    for name, value in {"POOL": 60, "HELD": 30, "MEASURED": 10, "SUBWORDS": 60}.items():
        monkeypatch.setattr(texts, name, value)


def test_no_sentence_stands_in_two_parts_and_each_seed_draws_its_own():
    first, again, other = (phrasebook(20, seed) for seed in (0, 0, 1))
    for found in (first, other):
        parts = [found.training, found.validation, found.test]
        assert [len(part) for part in parts] == [20, 10, 10]
    assert len({*sentences(120)}) == 120
    assert first.test.fingerprint() == again.test.fingerprint()
    assert first.test.fingerprint() != other.test.fingerprint()
    assert first.training.fingerprint() != other.training.fingerprint()


def test_the_vocabulary_is_that_of_the_training_alone_and_nats_are_counted_by_the_word():
    training = [("ein Hund", "a dog"), ("eine Katze", "a cat")] * 3
    found = prepared(training, training[:1], [("ein Zebra", "a zebra crossing")], subwords=60)
    assert not found.vocabulary.knows("Zebra")
    assert found.vocabulary.knows("Katze")
    labels = found.test.labels(found.test.pairs[:1])  # subwords, and the end
    assert found.subwords_a_word == labels / 4


def test_a_caption_that_judges_does_not_choose(monkeypatch):
    pairs = {"train": [(f"wort {n}", f"word {n}") for n in range(50)],
             "val": [(f"satz {n}", f"sentence {n}") for n in range(8)]}  # fmt: skip
    monkeypatch.setattr(texts, "multi30k", pairs.__getitem__)
    found, other = (captions.__wrapped__(10, seed, subwords=60) for seed in (0, 1))
    assert [len(part) for part in (found.training, found.validation, found.test)] == [10, 4, 4]
    sides = [{tuple(t) for _, t in part.pairs} for part in (found.validation, found.test)]
    assert not sides[0] & sides[1]
    assert found.training.pairs != other.training.pairs
