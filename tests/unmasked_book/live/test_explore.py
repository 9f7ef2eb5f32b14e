"""What the pages' elements for masks and positions are given, and what they say."""

import html
import json
import re

import pytest
import torch

from helpers.refusals import refusals
from unmasked.attention import masked_softmax
from unmasked.masks import causal_mask
from unmasked.positions import sinusoids
from unmasked_book.live import explore_masks, explore_positions

SOURCE, TARGET = ["ich", "möchte", "ein", "bier", "<eos>"], ["<bos>", "i", "want", "a", "beer"]
ELEMENTS = {
    "masks": lambda: explore_masks(SOURCE, TARGET),
    "positions": explore_positions,
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_its_html_carries_data_and_words_and_is_the_same_each_time(name):
    explored = ELEMENTS[name]()
    page = explored.html()
    assert json.loads(html.unescape(re.search(r' data="([^"]*)"', page)[1])) == explored.data
    assert html.escape(repr(explored)) in page
    assert ELEMENTS[name]().html() == page


# --- Masks ------------------------------------------------------------------------------------


def test_the_figure_of_masks_shows_the_weights_under_them():
    explored = explore_masks(SOURCE, TARGET)
    scores = torch.tensor(explored.data["attentions"][1]["scores"])
    weights = masked_softmax(scores, causal_mask(5))
    said = repr(explored.picture)
    assert f"want to {TARGET[weights[2].argmax()]} {weights[2].max():.2f}" in said


# --- Positions --------------------------------------------------------------------------------


def test_the_figure_of_positions_shows_the_first_width():
    explored = explore_positions(12, 3, widths=(6, 8))
    faces = [axis for axis in explored.picture.figure.axes if axis.lines]
    for hand, position in enumerate((12, 15)):
        ends = [[line[1] for line in face.lines[hand].get_data()] for face in faces]
        row = sinusoids(position, 1, 6)[0]
        assert torch.allclose(torch.tensor(ends, dtype=row.dtype).flatten(), row)


test_what_does_not_fit_is_refused = refusals(
    (lambda: explore_masks(list("abcdefg"), TARGET), "source"),
    (lambda: explore_masks(SOURCE, "ich"), "target"),
    (lambda: explore_positions(position=101), "position"),
    (lambda: explore_positions(offset=51), "offset"),
    (lambda: explore_positions(widths=(8, 7)), "widths"),
)
