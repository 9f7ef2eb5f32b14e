"""The benchmarks' arithmetic, and that what is recorded is what was measured."""

import itertools
import time

import pytest

from timing import Times, interleaved
from unmasked_book.machines import exponent
from unmasked_book.records import recorded


def test_a_ratio_compares_within_a_round():
    times = Times({"ours": [1.0, 2.0, 4.0], "theirs": [3.0, 6.0, 4.0]})
    assert times.ratio("ours", "theirs") == 3.0
    assert times.median("ours") == 2.0
    assert times.quartiles("theirs") == (3.5, 5.0)


def test_rounds_are_interleaved_and_begin_with_another_each_time():
    order = []
    runs = {name: lambda name=name: order.append(name) for name in "abc"}
    times = interleaved(runs, 2, "cpu")
    assert "".join(order) == "abc" + "abc" + "bca"
    assert all(len(seconds) == 2 for seconds in times.seconds.values())


def test_a_round_is_timed_run_by_run(monkeypatch):
    clock = itertools.accumulate([0.0, 1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0])  # each run, then a pause
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    times = interleaved({"a": lambda: None, "b": lambda: None}, 2, "cpu")
    assert times.seconds == {"a": [1.0, 4.0], "b": [2.0, 3.0]}  # the second round begins with b


def test_the_recorded_growth_is_that_of_the_longer_half_of_the_lengths():
    found = recorded("cpu")["scaling"]
    assert len(found["exponents"]) == 4
    for name, power in found["exponents"].items():
        kind, what = name.split(", ")
        half = len(found["lengths"]) // 2
        values = found[what][kind][half:]
        assert power == pytest.approx(exponent(found["lengths"][half:], values))
