"""Residual streams, layer norm and the bent plane: what is drawn is what the model computes."""

import math

import pytest
import torch
from torch import nn

from helpers.drawings import lines, numbers, shapes, texts
from unmasked.feed_forward import FeedForward
from unmasked_book.schematics.drawing import BLUE, GREY, ORANGE, YELLOW
from unmasked_book.schematics.layers import (
    BASIS,
    CORNERS,
    bent_plane,
    layer_norm,
    residual_stream,
    written,
)

POINTS = torch.tensor([[1, 2, 6], [4, 3, 2], [0.5, 0, 1], [2, 5, 2], [-1, -3, -2]])

# --- The residual stream ----------------------------------------------------------------------


def test_two_norms_interrupt_the_stream_of_post_norm_and_the_last_one_that_of_pre_norm():
    drawing = residual_stream()
    stream = lines(drawing, stroke_width="6")  # pieces of two thick lines
    assert sorted(line[0][0] > 330 for line in stream) == [False] * 3 + [True] * 2
    assert len(shapes(drawing, "circle", r="11")) == 4  # what is added
    middles = [numbers(box, "x")[0] + 42 for box in shapes(drawing, "rect", fill=YELLOW)]
    on_the_line = [x in {line[0][0] for line in stream} for x in middles]
    assert on_the_line == [True, True, True, False, False]


# --- Layer norm -------------------------------------------------------------------------------


def test_the_arrows_are_what_layer_norm_computes():
    drawing = layer_norm(POINTS)
    [ring] = shapes(drawing, "circle", fill="none")
    unit = numbers(ring, "r")[0] / math.sqrt(3)
    arrows = torch.tensor(lines(drawing, stroke_width="2.5"), dtype=torch.float64)
    tips = (arrows[:, 1] - arrows[:, 0]) * torch.tensor([1, -1])  # from where they start
    after = arrows[:, 0, 0] > 330
    normed = nn.LayerNorm(3, eps=0, elementwise_affine=False)(POINTS.double())
    centred = (POINTS - POINTS.mean(1, keepdim=True)).double()
    assert torch.allclose(tips[after], normed @ BASIS.T * unit, atol=0.3)
    assert torch.allclose(tips[~after], centred @ BASIS.T * unit, atol=0.3)
    assert torch.allclose(BASIS @ BASIS.T, torch.eye(2).double())
    assert torch.allclose(BASIS.sum(dim=1), torch.zeros(2).double(), atol=1e-12)


def test_tips_are_labelled_with_the_triples_and_words_have_the_numbers():
    drawing = layer_norm(POINTS)
    triples = ["(1, 2, 6)", "(4, 3, 2)", "(0.5, 0, 1)", "(2, 5, 2)", "(−1, −3, −2)"]
    assert [text for text in texts(drawing) if text.startswith("(")] == triples * 2
    assert "(1, 2, 6) of length 3.74" in drawing.words
    assert "(−0.93, −0.46, 1.39)" in drawing.words
    assert written([1.0, -2.5, 1 / 3]) == "(1, −2.5, 0.333333)"
    assert written([1.0, -0.001, 1 / 3], 2) == "(1.00, 0.00, 0.33)"


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[1.0, 2.0, 3.0]], "expected a Tensor, got list"),
        (torch.ones(3), r"\[n, 3\], got \[3\]"),
        (torch.ones(2, 4), r"got \[2, 4\]"),
        (torch.ones(0, 3), r"got \[0, 3\]"),
        (torch.ones(1, 3), "differ within each row"),
        (torch.tensor([[1.0, math.nan, 2.0]]), "finite numbers"),
        (torch.tensor([[1.0, math.inf, 2.0]]), "finite numbers"),
    ],
)
def test_what_has_no_direction_is_refused(points, message):
    with pytest.raises(ValueError, match=f"points: .*{message}"):
        layer_norm(points)


# --- ReLU -------------------------------------------------------------------------------------


@pytest.fixture
def network():
    """The XOR network of the picture, as the book's feed-forward layer."""
    layer = FeedForward(2, 2)
    with torch.no_grad():
        layer.expand.weight.copy_(torch.tensor([[1.0, 1.0], [1.0, 1.0]]))
        layer.expand.bias.copy_(torch.tensor([0.0, -1.0]))
        layer.contract.weight.copy_(torch.tensor([[1.0, -2.0], [0.0, 0.0]]))
        layer.contract.bias.zero_()
    return layer


def marks(drawing):
    """The places of the points with answer 1, which are filled, and with answer 0."""
    filled = shapes(drawing, "circle", fill=ORANGE)
    hollow = shapes(drawing, "circle", stroke=BLUE, fill="none")
    return [[numbers(mark, "cx", "cy") for mark in each] for each in (filled, hollow)]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_points_are_where_the_network_has_them(network, number):
    x = torch.tensor(CORNERS, dtype=torch.float32)[None]
    with torch.no_grad():
        before = network.expand(x)
        spots = [x, before, before.relu()][number][0].int().tolist()
        answers = network(x)[0, :, 0].tolist()
    assert answers == [0, 1, 1, 0]
    across, up = lines(bent_plane(), stroke_opacity="0.4")[2 * number : 2 * number + 2]
    origin, unit = (up[0][0], across[0][1]), (92, 58, 58)[number]
    for wanted, places in zip((1, 0), marks(bent_plane()), strict=True):
        here = [(x, y) for x, y in places if across[0][0] <= x <= across[1][0]]
        drawn = {(round((x - origin[0]) / unit), round((origin[1] - y) / unit)) for x, y in here}
        assert drawn == {tuple(s) for s, a in zip(spots, answers, strict=True) if a == wanted}


def side(line, spot):
    (x1, y1), (x2, y2) = line
    return (x2 - x1) * (spot[1] - y1) - (y2 - y1) * (spot[0] - x1) > 0


def test_the_last_line_separates_and_the_dashed_one_does_not():
    drawing = bent_plane()
    filled, hollow = marks(drawing)
    [dashed] = lines(drawing, stroke_dasharray="4 3")
    assert {side(dashed, spot) for spot in filled if spot[0] < 200} == {False}
    assert [side(dashed, spot) for spot in sorted(hollow) if spot[0] < 200] == [True, False]
    [solid] = [line for line in lines(drawing, stroke_width="2") if line[0][0] > 460]
    assert {side(solid, spot) for spot in filled if spot[0] > 460} == {True}
    assert {side(solid, spot) for spot in hollow if spot[0] > 460} == {False}
    straight, bent = lines(drawing, stroke=GREY)  # before ReLU and after it
    assert (len(straight), len(bent)) == (2, 3)
    assert {"W₁, b₁", "ReLU", "the cut h₁ − 2h₂ = ½"} <= set(texts(drawing))
