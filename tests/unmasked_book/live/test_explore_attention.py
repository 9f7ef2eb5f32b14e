"""What the page of chapter 3 is given, and what its figure says."""

import re

import pytest
import torch

from unmasked.attention import masked_softmax
from unmasked_book.live import explore_attention


def test_data_are_rounded_scores_and_the_widths():
    figure = explore_attention([0.12345, -1.0, 2.0])
    assert figure.data == {
        "scores": [0.123, -1.0, 2.0],
        "widths": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
        "start": 64,
    }
    tensor = explore_attention(torch.tensor([0.12345, -1.0, 2.0]))
    assert tensor.html() == figure.html()


def test_words_hold_the_entropies_in_bits():
    scores = torch.tensor([0.5, -0.25, 1.0, 0.0], dtype=torch.float64)
    figure = explore_attention(scores, start=16)
    weights = masked_softmax(torch.stack([scores, 4 * scores]))
    divided, raw = (torch.special.entr(weights).sum(-1) / torch.tensor(2.0).log()).tolist()
    assert f"is {divided:.2f} bits if divided and {raw:.2f} if not" in figure.words
    assert repr(figure) == figure.words
    assert f"divided, entropy {divided:.2f} bits: key 1 {weights[0, 0]:.2f}" in figure.picture.words
    assert "One query, vectors of width 16" in figure.picture.words


def test_equal_scores_have_the_most_that_is_possible():
    words = explore_attention([1.0] * 8).words
    assert "3.00 bits if divided and 3.00 if not" in words


@pytest.mark.parametrize(
    "scores", [[1.0], [0.0] * 13, [0.0, float("inf")], torch.zeros(2, 2)], ids=str
)
def test_wrong_scores_are_refused(scores):
    message = "scores: expected from 2 to 12 finite numbers, got ["
    with pytest.raises(ValueError, match=re.escape(message)):
        explore_attention(scores)


def test_a_start_that_is_not_on_the_slider_is_refused():
    with pytest.raises(ValueError, match="start: expected a power of two from 1 to 1024, got 100"):
        explore_attention([0.0, 1.0], start=100)
