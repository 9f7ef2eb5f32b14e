"""What is given to the clocks of chapter 2, and their figure; their use is tested in a browser."""

import html
import json
import re

import pytest
import torch

from unmasked.positions import frequencies, sinusoids
from unmasked_book.live import explore_positions
from unmasked_book.live.explore import clocks


def test_it_holds_where_it_begins_and_how_far_it_goes():
    assert explore_positions(7, 2, widths=(4, 6)).data == {
        "widths": [4, 6],
        "position": 7,
        "offset": 2,
        "last": {"position": 100, "offset": 50},
    }


def test_its_html_carries_the_data_and_is_the_same_each_time():
    explored = explore_positions()
    page = explored.html()
    assert json.loads(html.unescape(re.search(r' data="([^"]*)"', page)[1])) == explored.data
    assert explore_positions().html() == page
    assert "of width 8 or 16." in repr(explored)


def test_its_figure_shows_the_first_width():
    said = repr(explore_positions(12, 3, widths=(6, 8)).picture)
    angles = ", ".join(f"{3 * omega:.3f}" for omega in frequencies(6).tolist())
    assert "width 6" in said
    assert f"From position 12 to position 15 the hands turn by {angles} radians." in said


def test_hands_end_at_sine_and_cosine():
    picture = clocks(12, 5, 4)
    faces = [axis for axis in picture.figure.axes if axis.lines]
    assert len(faces) == 6
    assert len(picture.figure.axes) == 8  # two rows of four, of which two stay empty
    for hand, position in enumerate((5, 9)):
        ends = [[line[1] for line in face.lines[hand].get_data()] for face in faces]
        row = sinusoids(position, 1, 12)[0]
        assert torch.allclose(torch.tensor(ends, dtype=row.dtype).flatten(), row)


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"position": -1}, "position"),
        ({"position": 101}, "position"),
        ({"position": 1.5}, "position"),
        ({"offset": -1}, "offset"),
        ({"offset": 51}, "offset"),
        ({"widths": ()}, "widths"),
        ({"widths": (8, 7)}, "widths"),
        ({"widths": (34,)}, "widths"),
        ({"widths": (0,)}, "widths"),
    ],
)
def test_what_does_not_fit_is_refused(given, argument):
    with pytest.raises(ValueError, match=f"^{argument}: expected "):
        explore_positions(**given)
