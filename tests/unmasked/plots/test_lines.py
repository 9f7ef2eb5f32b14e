"""Tests that curves draw the numbers they get, and their words."""

import torch

from unmasked import plots

AXES = {"xlabel": "step", "ylabel": "loss"}


def test_curves_draw_the_numbers_they_are_given():
    lines = {"up": [1, 2, 3], "down": torch.tensor([3.0, 2.0, 0.5])}
    options = {"title": "Training", "log_y": True, "log_x": True, "mark": (20, "half way")}
    picture = plots.curves(lines, [10, 20, 30], **AXES, **options)
    [axis] = picture.figure.axes
    assert [list(line.get_ydata()) for line in axis.lines[:2]] == [[1, 2, 3], [3, 2, 0.5]]
    assert list(axis.lines[0].get_xdata()) == [10, 20, 30]
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    assert len({(line.get_color(), line.get_linestyle()) for line in axis.lines[:2]}) == 2
    assert "down goes from 3 at 10 to 0.5 at 30, lowest 0.5, highest 3" in picture.words
    assert "20: half way" in picture.words
    [axis] = plots.curves({"a": [5, 6]}, **AXES, low=0.0).figure.axes
    assert axis.get_ylim()[0] == 0


def test_curves_count_from_zero_and_have_no_point_where_a_value_is_nan():
    picture = plots.curves({"a": [float("nan"), 2.0, 1.0], "b": [3.0, 4.0, 5.0]}, **AXES)
    first, second = picture.figure.axes[0].lines
    assert first.get_xydata().tolist() == [[1, 2], [2, 1]]
    assert second.get_xydata().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert "a goes from 2 at 1 to 1 at 2, lowest 1, highest 2" in picture.words
