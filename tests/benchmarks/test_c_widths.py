"""What is recorded of searches in narrow models, ours and CTranslate2's."""

import statistics

import pytest

from unmasked_book.records import recorded


def test_both_engines_are_recorded_for_every_width():
    kept = recorded("c-widths")
    asked = [(each["rows"], each["width"]) for each in kept["searches"]]
    assert asked == [(rows, width) for rows in (1, 32) for width in (16, 32, 64, 128, 256)]
    assert all(each["seconds"].keys() == {"unmasked", "CTranslate2"} for each in kept["searches"])
    assert kept["machine"]["threads"] == 1


@pytest.mark.parametrize("rows", [1, 32])
def test_a_wider_model_takes_longer(rows):
    times = [each["seconds"] for each in recorded("c-widths")["searches"] if each["rows"] == rows]
    for engine in ("unmasked", "CTranslate2"):
        seconds = [statistics.median(each[engine]) for each in times]
        assert seconds == sorted(seconds)
        assert seconds[0] > 0
