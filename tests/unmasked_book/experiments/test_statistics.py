"""Honest intervals, paired differences, and rows that are named by their options."""

import math
from statistics import fmean

import pytest
import torch

from unmasked_book.experiments.statistics import (
    above,
    ahead,
    difference,
    interval,
    intervals,
    ladders,
    options,
    row,
    table,
    trials,
)


def test_an_interval_is_the_mean_and_t_times_its_error():
    found = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    reach_ = 2.776 * math.sqrt(2.5) / math.sqrt(5)
    assert found == pytest.approx((3.0, 3.0 - reach_, 3.0 + reach_))
    assert str(interval([0.5, 0.7])) == "0.6 (-0.671 to 1.87)"


def test_nineteen_of_twenty_intervals_hold_the_true_mean_and_clear_is_what_999_of_1000_say():
    draws = torch.randn(10_000, 5, generator=torch.Generator().manual_seed(0)).tolist()
    held = fmean(each.low <= 0 <= each.high for each in map(interval, draws[:4000]))
    assert 0.94 < held < 0.96
    clear = fmean(above(each, [0.0] * 5) or above([0.0] * 5, each) for each in draws)
    assert 0.0003 < clear < 0.0018


def test_what_is_clearly_ahead_says_so():
    low, high = [0.50, 0.51, 0.49, 0.50], [0.60, 0.61, 0.59, 0.60]
    assert ahead(high, low, 2).split() == ["+10.00", "±", "0.00,", "clear"]
    assert ahead(low, high).split() == ["−10.0", "±", "0.0"]


def test_what_both_share_cancels_out():
    a, b = [1.0, 5.0, 9.0, 2.0, 7.0], [0.5, 4.4, 8.6, 1.5, 6.5]
    assert above(a, b)
    assert not above(b, a)
    assert interval(a).low < interval(b).high  # side by side they overlap
    assert difference(a, b).mean == pytest.approx(fmean(a) - fmean(b))


def test_runs_that_cannot_be_compared_are_refused():
    for values in ([1.0], [1.0] * 11):
        with pytest.raises(ValueError, match="values: expected 2 to 10"):
            interval(values)
    with pytest.raises(ValueError, match="b: expected 2 values, got 3"):
        difference([1.0, 2.0], [1.0, 2.0, 3.0])


def test_a_row_is_named_by_what_only_it_has():
    rows = [
        {"size": size, "kind": "a", "trials": [{"right": size / 10}, {"right": size}]}
        for size in (1, 2)
    ]
    assert trials(rows, "right", size=2) == [0.2, 2]
    assert options(rows, "size") == [1, 2]
    with pytest.raises(ValueError, match="where: expected one row, got 2 with"):
        row(rows, kind="a")


def test_intervals_are_drawn_as_they_are_said_and_nothing_below_the_floor():
    runs, labels = [[2.0, 3.0, 4.0], [0.0, 0.1, 0.2]], {"xlabel": "pairs", "ylabel": "nats"}
    picture = intervals({"left": {"a": runs}}, [5, 5000], log_y=True, floor=0.01, **labels)
    [[[bars, caps, _]]] = [axis.containers for axis in picture.figure.axes]
    assert bars.get_ydata().tolist() == pytest.approx([3.0, 0.1])
    assert [cap.get_ydata()[0] for cap in caps] == pytest.approx(interval(runs[0])[1:])
    assert caps[0].get_ydata()[1] == pytest.approx(0.01)
    assert "left, a: 3 (0.516 to 5.48) at 5, 0.1 (-0.148 to 0.348) at 5000" in picture.words
    with pytest.raises(ValueError, match="a: expected 1 lists, got 2"):
        intervals({"": {"a": runs}}, [5], **labels)


def test_a_table_compares_each_row_with_the_one_it_should():
    rows = [
        {"size": size, "kind": kind, "rate": 0.01, "tried": {"rate": {"0.02": 1, "0.01": 0.5}},
         "trials": [{"right": size / 10 + 0.01 * seed + gain * (1 + seed / 300)}
                    for seed in range(10)]}
        for size in (1, 2) for kind, gain in (("a", 0.0), ("b", 0.3))
    ]  # fmt: skip
    found = table(rows, "right", {"size": "size", "kind": "which"}, {"kind": "a"}, percent=True)
    first, second = ([" ".join(c.split()) for c in line] for line in found.lines[1:3])
    assert first == ["1", "a", "14.5 ± 2.2", "", "", "0.01 of 0.01–0.02"]
    assert second[3:5] == ["+30.4 ± 0.2", "yes"]
    picture = ladders({"high": {"0.002": 2.0, "0.004": 1.0}})
    places = [line.get_xydata().tolist() for line in picture.figure.axes[0].lines]
    assert places == [[[0.002, 2], [0.004, 1]], [[0.004, 1]]]  # the ladder, and its best rung
