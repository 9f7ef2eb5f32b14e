"""On real text: what is compared, and intervals over seeds and captions."""

import numpy as np
import pytest

from unmasked_book.experiments import captions
from unmasked_book.experiments.captions import compared
from unmasked_book.experiments.statistics import difference


def rows(means, spread, seeds=5, sentences=200):
    """Two rows; the difference of each seed and of each caption is drawn."""
    draws = np.random.default_rng(1)
    base = draws.normal(20, 5, (seeds, sentences))
    less = means + draws.normal(0, spread[0], (seeds, 1)) + draws.normal(0, spread[1], sentences)
    return [
        {"trials": [{"each": list(row), "words": 10 * sentences} for row in each]}
        for each in (base + less, base)
    ]


def gap(*pair):
    return compared(*pair).gap


def width(found):
    return found.high - found.low


def test_a_gap_is_counted_by_the_word():
    assert gap(*rows(3.0, (0, 0))) == pytest.approx((0.3, 0.3, 0.3))


def test_where_captions_agree_it_is_students_interval_over_the_seeds():
    a, b = rows(3.0, (2.0, 0.0))
    means = [[np.mean(trial["each"]) / 10 for trial in each["trials"]] for each in (a, b)]
    assert width(gap(a, b)) / width(difference(*means)) == pytest.approx(1.0, abs=0.1)


def test_the_interval_over_captions_is_not_too_narrow():
    pair = rows(3.0, (0.0, 20.0), sentences=400)
    less = np.array(pair[0]["trials"][0]["each"]) - np.array(pair[1]["trials"][0]["each"])
    error = less.std() / np.sqrt(len(less)) / 10
    assert 1.0 < width(gap(*pair)) / (2 * 1.96 * error) < 1.7


def test_a_caption_that_judges_does_not_choose(monkeypatch):
    pairs = {"train": [(f"wort {n}", f"word {n}") for n in range(50)],
             "val": [(f"satz {n}", f"sentence {n}") for n in range(8)]}  # fmt: skip
    monkeypatch.setattr("unmasked_book.experiments.texts.multi30k", pairs.__getitem__)
    found = captions.captions.__wrapped__(10, 0, subwords=60)
    again, other = (captions.captions.__wrapped__(10, seed, subwords=60) for seed in (0, 1))
    assert [len(part) for part in (found.training, found.validation, found.test)] == [10, 4, 4]
    sides = [{tuple(t) for _, t in part.pairs} for part in (found.validation, found.test)]
    assert not sides[0] & sides[1]
    assert found.training.fingerprint() == again.training.fingerprint()
    assert found.training.pairs != other.training.pairs
    assert captions.words_of(found) == 3 * 4  # "sentence", its number and the end
