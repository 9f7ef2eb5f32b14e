"""Tests that curves draw the numbers they get, and their words."""

import math

from unmasked import plots


def test_curves_draw_the_numbers_they_are_given_and_no_point_where_one_is_nan():
    lines = {"up": [1, 2, math.nan], "down": [3.0, 2.0, 0.5]}
    labels = {"xlabel": "step", "ylabel": "loss", "mark": (20, "half way")}
    picture = plots.curves(lines, [10, 20, 30], **labels)
    up, down = picture.figure.axes[0].lines[:2]
    assert up.get_xydata().tolist() == [[10, 1], [20, 2]]
    assert down.get_xydata().tolist() == [[10, 3], [20, 2], [30, 0.5]]
    assert "down goes from 3 at 10 to 0.5 at 30, lowest 0.5, highest 3" in picture.words
    assert "20: half way" in picture.words
