"""What is recorded of searches in narrow models, ours and CTranslate2's."""

import statistics

import pytest

from unmasked_book.records import recorded


def test_both_engines_are_recorded_for_every_width():
    kept = recorded("c-widths")
    asked = [(each["width"], each["new_tokens"]) for each in kept["searches"]]
    assert asked == [(width, new) for width in (16, 32, 64, 128, 256) for new in (1, 64)]
    measured = {"unmasked", "CTranslate2", "products"}
    assert all(each["seconds"].keys() == measured for each in kept["searches"])
    assert kept["machine"]["threads"] == 1


@pytest.mark.parametrize("engine", ["unmasked", "CTranslate2", "products"])
@pytest.mark.parametrize("new", [1, 64])
def test_a_wider_model_takes_longer(engine, new):
    searches = recorded("c-widths")["searches"]
    times = [each["seconds"][engine] for each in searches if each["new_tokens"] == new]
    seconds = [statistics.median(each) for each in times]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0
