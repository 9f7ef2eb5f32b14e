"""On real text: what is compared, and intervals over seeds and captions."""

import numpy as np
import pytest

from unmasked_book.experiments import captions
from unmasked_book.experiments.captions import gap


def rows(means, spread, seeds=5, sentences=200):
    """Two rows; the difference of each seed and of each caption is drawn."""
    draws = np.random.default_rng(1)
    base = draws.normal(20, 5, (seeds, sentences))
    less = means + draws.normal(0, spread[0], (seeds, 1)) + draws.normal(0, spread[1], sentences)
    return [
        {"trials": [{"each": list(row), "words": 10 * sentences} for row in each]}
        for each in (base + less, base)
    ]


def test_a_gap_is_counted_by_the_word():
    found = gap(*rows(3.0, (0, 0)))
    assert found.usual == pytest.approx((0.3, 0.3, 0.3))
    assert found.clear


@pytest.mark.parametrize("spread", [(2.0, 0.0), (0.0, 20.0)])
def test_seeds_and_captions_both_widen_it(spread):
    narrow, wide = gap(*rows(3.0, (0.1, 1.0))), gap(*rows(3.0, spread))
    assert wide.usual.high - wide.usual.low > 3 * (narrow.usual.high - narrow.usual.low)
    assert wide.sure.low < wide.usual.low < wide.usual.mean < wide.usual.high < wide.sure.high
    assert narrow.clear


def test_the_interval_over_captions_is_the_usual_one():
    pair = rows(3.0, (0.0, 20.0), sentences=400)
    less = np.array(pair[0]["trials"][0]["each"]) - np.array(pair[1]["trials"][0]["each"])
    error = less.std() / np.sqrt(len(less)) / 10
    found = gap(*pair).usual
    assert (found.high - found.low) / (2 * 1.96 * error) == pytest.approx(1.0, abs=0.05)


def test_a_caption_that_judges_does_not_choose(monkeypatch):
    pairs = {"train": [(f"wort {n}", f"word {n}") for n in range(50)],
             "val": [(f"satz {n}", f"sentence {n}") for n in range(8)]}  # fmt: skip
    monkeypatch.setattr("unmasked_book.experiments.texts.multi30k", pairs.__getitem__)
    found = captions.captions.__wrapped__(10, 0, subwords=60)
    again, other = (captions.captions.__wrapped__(10, seed, subwords=60) for seed in (0, 1))
    assert [len(part) for part in (found.training, found.validation, found.test)] == [10, 4, 4]
    sides = [{tuple(row) for row in part.target} for part in (found.validation, found.test)]
    assert not sides[0] & sides[1]
    assert found.training.fingerprint() == again.training.fingerprint()
    assert found.training.source != other.training.source
    assert captions.words_of(found) == 3 * 4  # "sentence", its number and the end


def test_the_table_and_the_picture_say_the_same():
    gaps = {"clear": gap(*rows(3.0, (0.1, 1.0))), "not": gap(*rows(0.0, (2.0, 20.0)))}
    lines = captions.table(gaps).lines
    assert lines[1][1].startswith(f"+{gaps['clear'].usual.mean:.3f} (+0.")
    picture = captions.drawn(gaps)
    assert f"clear: {gaps['clear'].usual}; not: {gaps['not'].usual}." in picture.words
    [axis] = picture.figure.axes
    assert [text.get_text() for text in axis.get_yticklabels()] == list(gaps)
