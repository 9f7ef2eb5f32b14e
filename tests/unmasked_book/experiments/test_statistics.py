"""Tests intervals, paired differences, and rows that are named by their options."""

import math

import pytest

from unmasked_book.experiments.statistics import deciding, forest, interval


def test_an_interval_is_the_mean_and_t_times_its_error():
    error = math.sqrt(2.5) / math.sqrt(5)
    expected = pytest.approx((3.0, 3.0 - 2.776 * error, 3.0 + 2.776 * error))
    assert interval([1.0, 2.0, 3.0, 4.0, 5.0]) == expected
    assert str(interval([0.5, 0.7])) == "0.6 (-0.671 to 1.87)"


def test_what_decides_is_found_in_the_rows_and_drawn_in_units_of_what_is_clear():
    gains = {"a": [3.0, 4.0, 5.0], "b": [1.0, 1.0, 2.0], "c": [1.0, 1.0, 2.0]}
    rows = [{"kind": kind, "trials": [{"exact": [0, x]} for x in gains[kind]]} for kind in gains]
    cases = {"large": [{"kind": "a"}, {"kind": "b"}], "none": [{"kind": "b"}, {"kind": "c"}]}
    part = {"what": "more", "verdict": "yes", "unit": "nats", "measured": ["exact", 1]}
    large, none = deciding({"decided by": [{**part, "cases": cases}], "rows": rows})
    error = math.sqrt(1 / 3) / math.sqrt(3)  # of 2, 3, 3
    assert large.times_clear() == pytest.approx(8 / 3 / (31.599 * error))
    assert none.times_clear() == 0
    words = forest({"more": [large], "none": [none]}, ["yes", "no"]).words
    assert "more: 0.25, yes; none: 0, no" in words
