"""Tests the benchmarks' arithmetic."""

from timing import Times


def test_a_ratio_compares_within_a_round():
    times = Times({"ours": [1.0, 2.0, 4.0], "theirs": [3.0, 6.0, 4.0]})
    assert times.median("ours") == 2.0
    assert times.ratios("ours", "theirs") == [3.0, 3.0, 1.0]
    assert times.ratio("ours", "theirs") == 3.0
