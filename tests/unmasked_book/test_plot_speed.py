"""The roofline and what grows: what is drawn, and on which machine it was measured."""

import numpy as np
import pytest

from unmasked import plots
from unmasked_book.machines import where

MACHINE = {"processor": "Abacus", "threads": 2, "torch": "9.9", "date": "2026-01-02"}
ON = "Abacus, 2 threads, torch 9.9, 2026-01-02"
LABELS = {"xlabel": "n", "ylabel": "seconds"}


def lines(axis):
    return [line.get_xydata() for line in axis.get_lines()]


def legend(picture):
    [found] = picture.figure.legends
    assert found.get_title().get_text() == ON
    return [text.get_text() for text in found.get_texts()]


def test_products_stand_under_their_roof():
    n = np.array([6, 600])
    found = {
        "float32": {"sizes": [6, 600], "seconds": list(2 * n**3 / [1e9, 4e10])},
        "bfloat16": {"sizes": [6], "seconds": [2 * 6**3 / 2e9]},
    }
    picture = plots.roofline(found, 1e9, MACHINE)
    [axis] = picture.figure.axes
    roof, points, half_roof, half_points = lines(axis)
    assert np.allclose(points, [[1, 1], [100, 40]])  # n / 6 operations a byte; 10⁹ a second
    assert np.allclose(half_points, [[2, 2]])  # half the bytes
    assert np.allclose(roof[:, 1], np.minimum(roof[:, 0], 40))
    assert np.allclose(half_roof[:, 1], np.minimum(half_roof[:, 0], 2))
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    assert legend(picture) == ["float32", "bfloat16"]
    assert "float32 goes from 1 at n = 6 to 40 at n = 600, at most 40;" in picture.words
    assert picture.words.endswith(f"The slope is 1 GB a second. Measured on {ON}.")


def test_points_are_joined_and_their_places_named():
    picture = plots.measured({"a": [1, 20, 30]}, [1, 2, 4000], MACHINE, **LABELS)
    [axis] = picture.figure.axes
    points, joined = lines(axis)
    assert np.allclose(points, [[1, 1], [2, 20], [4000, 30]])
    assert np.allclose(joined, points)
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["1", "2", "4,000"]
    assert axis.yaxis.get_major_formatter()(0.05, 0) == "0.05"
    assert axis.yaxis.get_major_formatter()(2000.0, 0) == "2,000"
    assert picture.words == f"seconds over n. a, from 1 at 1 to 30 at 4,000. Measured on {ON}."


def test_a_power_is_fitted_to_the_last_points_and_named():
    x = [1, 2, 4, 8]
    values = {"square": [9, 8, 32, 128], "flat": [3, 3, 3, 3]}
    picture = plots.measured(values, x, MACHINE, **LABELS, fitted=3)
    [axis] = picture.figure.axes
    points, fit, _, flat = lines(axis)
    assert np.allclose(points, np.column_stack([x, values["square"]]))
    assert np.allclose(fit, [[2, 8], [4, 32], [8, 128]])
    assert np.allclose(flat[:, 1], 3)
    assert legend(picture) == ["square: grows like n^2.0", "flat: grows like n^0.0"]
    assert picture.words == (
        "seconds over n. square: grows like n^2.0, from 9 at 1 to 128 at 8; flat: grows like "
        f"n^0.0, from 3 at 1 to 3 at 8. Measured on {ON}."
    )


def test_lines_of_another_length_are_refused():
    with pytest.raises(ValueError, match="a: expected 3 values, got 2; give x and each line"):
        plots.measured({"a": [1, 2]}, [1, 2, 3], MACHINE, **LABELS)


def test_one_thread_is_one():
    assert where({**MACHINE, "threads": 1}) == "Abacus, 1 thread, torch 9.9, 2026-01-02"
