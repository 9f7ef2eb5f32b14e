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
from unmasked_book.live.explore import clocks

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


def test_attention_has_rounded_scores_and_the_widths():
    figure = explore_attention([0.12345, -1.0, 2.0])
    assert figure.data == {
        "scores": [0.123, -1.0, 2.0],
        "widths": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
        "start": 64,
    }
    assert explore_attention(torch.tensor([0.12345, -1.0, 2.0])).html() == figure.html()


def test_the_words_of_attention_hold_the_entropies_in_bits():
    scores = torch.tensor([0.5, -0.25, 1.0, 0.0], dtype=torch.float64)
    figure = explore_attention(scores, start=16)
    weights = masked_softmax(torch.stack([scores, 4 * scores]))
    divided, raw = (torch.special.entr(weights).sum(-1) / torch.tensor(2.0).log()).tolist()
    assert f"is {divided:.2f} bits if divided and {raw:.2f} if not" in figure.words
    assert f"divided, entropy {divided:.2f} bits: key 1 {weights[0, 0]:.2f}" in figure.picture.words
    equal = explore_attention([1.0] * 8).words
    assert "3.00 bits if divided and 3.00 if not" in equal  # the most that is possible


@pytest.mark.parametrize(
    ("scores", "start", "message"),
    [
        ([1.0], 64, r"scores: .* got \["),
        ([0.0] * 13, 64, r"scores: .* got \["),
        ([0.0, float("inf")], 64, r"scores: .* got \["),
        (torch.zeros(2, 2), 64, r"scores: .* got \["),
        ([0.0, 1.0], 100, "start: .* power of two from 1 to 1024, got 100"),
    ],
    ids=str,
)
def test_wrong_scores_are_refused(scores, start, message):
    with pytest.raises(ValueError, match=message):
        explore_attention(scores, start=start)


# --- Masks ------------------------------------------------------------------------------------


def test_masks_hold_the_tokens_and_short_scores_of_three_attentions():
    data = explore_masks(SOURCE, TARGET[:4]).data
    assert data["tokens"] == {"source": SOURCE, "target": TARGET[:4]}
    found = [
        (one["name"], one["queries"], one["keys"], torch.tensor(one["scores"]).shape)
        for one in data["attentions"]
    ]
    assert found == [
        ("encoder", "source", "source", (5, 5)),
        ("decoder", "target", "target", (4, 4)),
        ("cross-attention", "target", "source", (4, 5)),
    ]
    numbers = re.findall(r"-?\d+\.\d+", json.dumps(data["attentions"]))
    assert all(re.fullmatch(r"-?\d\.\d", number) for number in numbers)
    assert "-0.0" not in numbers


def test_the_figure_of_masks_shows_the_weights_under_them():
    explored = explore_masks(SOURCE, TARGET)
    scores = torch.tensor(explored.data["attentions"][1]["scores"])
    weights = masked_softmax(scores, causal_mask(5))
    said = repr(explored.picture)
    assert "decoder: <bos> to <bos> 1.00, " in said
    assert f"want to {TARGET[weights[2].argmax()]} {weights[2].max():.2f}" in said
    assert "“ich möchte ein bier <eos>”" in repr(explored)


@pytest.mark.parametrize("wrong", [[], list("abcdefg"), "ich"])
@pytest.mark.parametrize("argument", ["source", "target"])
def test_a_sentence_is_a_short_list_of_tokens(argument, wrong):
    given = {"source": SOURCE, "target": TARGET, argument: wrong}
    with pytest.raises(ValueError, match=f"^{argument}: .* 1 to 6 tokens"):
        explore_masks(**given)


# --- Positions --------------------------------------------------------------------------------


def test_positions_begin_and_end_where_they_say_and_their_figure_shows_the_first_width():
    explored = explore_positions(12, 3, widths=(6, 8))
    last = {"position": 100, "offset": 50}
    assert explored.data == {"widths": [6, 8], "position": 12, "offset": 3, "last": last}
    angles = ", ".join(f"{3 * omega:.3f}" for omega in frequencies(6).tolist())
    said = repr(explored.picture)
    assert "width 6" in said
    assert f"From position 12 to position 15 the hands turn by {angles} radians." in said
    assert "of width 6 or 8." in repr(explored)


def test_hands_end_at_sine_and_cosine():
    picture = clocks(12, 5, 4)
    faces = [axis for axis in picture.figure.axes if axis.lines]
    assert len(faces) == 6
    for hand, position in enumerate((5, 9)):
        ends = [[line[1] for line in face.lines[hand].get_data()] for face in faces]
        row = sinusoids(position, 1, 12)[0]
        assert torch.allclose(torch.tensor(ends, dtype=row.dtype).flatten(), row)


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        *(("position", wrong) for wrong in (-1, 101, 1.5)),
        *(("offset", wrong) for wrong in (-1, 51)),
        *(("widths", wrong) for wrong in ((), (8, 7), (34,), (0,))),
    ],
)
def test_what_does_not_fit_is_refused(argument, wrong):
    with pytest.raises(ValueError, match=f"^{argument}: expected "):
        explore_positions(**{argument: wrong})
