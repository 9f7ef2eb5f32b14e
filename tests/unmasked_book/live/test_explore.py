"""What the pages' elements for attention, masks and positions are given, and what they say."""

import html
import json
import re

import pytest
import torch

from unmasked.attention import masked_softmax
from unmasked.masks import causal_mask
from unmasked.positions import frequencies, sinusoids
from unmasked_book.live import explore_attention, explore_masks, explore_positions

SOURCE, TARGET = ["ich", "möchte", "ein", "bier", "<eos>"], ["<bos>", "i", "want", "a", "beer"]
ELEMENTS = {
    "attention": lambda: explore_attention([0.5, -0.25, 1.0]),
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


# --- Attention --------------------------------------------------------------------------------


def test_the_words_of_attention_hold_the_entropies_in_bits():
    scores = torch.tensor([0.5, -0.25, 1.0, 0.0], dtype=torch.float64)
    figure = explore_attention(scores, start=16)
    weights = masked_softmax(torch.stack([scores, 4 * scores]))
    divided, raw = (torch.special.entr(weights).sum(-1) / torch.tensor(2.0).log()).tolist()
    assert f"is {divided:.2f} bits if divided and {raw:.2f} if not" in figure.words
    assert figure.data["scores"] == scores.tolist()
    assert (figure.data["widths"][::5], figure.data["start"]) == ([1, 32, 1024], 16)


# --- Masks ------------------------------------------------------------------------------------


def test_the_figure_of_masks_shows_the_weights_under_them():
    explored = explore_masks(SOURCE, TARGET)
    shapes = [torch.tensor(one["scores"]).shape for one in explored.data["attentions"]]
    assert shapes == [(5, 5), (5, 5), (5, 5)]
    scores = torch.tensor(explored.data["attentions"][1]["scores"])
    weights = masked_softmax(scores, causal_mask(5))
    said = repr(explored.picture)
    assert "decoder: <bos> to <bos> 1.00, " in said
    assert f"want to {TARGET[weights[2].argmax()]} {weights[2].max():.2f}" in said


# --- Positions --------------------------------------------------------------------------------


def test_positions_begin_and_end_where_they_say_and_their_figure_shows_the_first_width():
    explored = explore_positions(12, 3, widths=(6, 8))
    last = {"position": 100, "offset": 50}
    assert explored.data == {"widths": [6, 8], "position": 12, "offset": 3, "last": last}
    angles = ", ".join(f"{3 * omega:.3f}" for omega in frequencies(6).tolist())
    said = repr(explored.picture)
    assert f"From position 12 to position 15 the hands turn by {angles} radians." in said
    faces = [axis for axis in explored.picture.figure.axes if axis.lines]
    for hand, position in enumerate((12, 15)):
        ends = [[line[1] for line in face.lines[hand].get_data()] for face in faces]
        row = sinusoids(position, 1, 6)[0]
        assert torch.allclose(torch.tensor(ends, dtype=row.dtype).flatten(), row)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: explore_attention([1.0]), "scores"),
        (lambda: explore_attention([0.0, float("inf")]), "scores"),
        (lambda: explore_attention([0.0, 1.0], start=100), "start"),
        (lambda: explore_masks(list("abcdefg"), TARGET), "source"),
        (lambda: explore_masks(SOURCE, "ich"), "target"),
        (lambda: explore_positions(position=101), "position"),
        (lambda: explore_positions(offset=51), "offset"),
        (lambda: explore_positions(widths=(8, 7)), "widths"),
    ],
)
def test_what_does_not_fit_is_refused(call, argument):
    with pytest.raises(ValueError, match=f"^{argument}: .*"):
        call()
