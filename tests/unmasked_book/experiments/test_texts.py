"""Sentences of three kinds, none of them twice; and subwords that know the training only."""

import pytest

from unmasked_book.experiments import texts
from unmasked_book.experiments.texts import ANY, FITS, LONG, SHORT, fitting, phrasebook, prepared


@pytest.fixture(autouse=True)
def few(monkeypatch):
    for name, value in {"POOL": 60, "HELD": 30, "MEASURED": 10, "SUBWORDS": 60}.items():
        monkeypatch.setattr(texts, name, value)


@pytest.mark.parametrize("kind", FITS)
def test_sentences_fit_their_kind(kind):
    found = fitting(kind, 40)
    lengths = [len(german.split()) for german, _ in found]
    assert len(found) == len(set(found)) == 40
    assert {SHORT: max(lengths) <= 5, LONG: min(lengths) >= 9, ANY: len(set(lengths)) > 4}[kind]


def test_no_sentence_stands_in_two_parts_and_each_seed_draws_its_own():
    first, again, other = (phrasebook(ANY, 20, seed) for seed in (0, 0, 1))
    for found in (first, other):
        parts = [found.training, found.validation, found.test]
        assert [len(part) for part in parts] == [20, 10, 10]
    pool, rest = fitting(ANY, 120)[:60], fitting(ANY, 120)[60:]
    assert not set(pool) & set(rest)
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
