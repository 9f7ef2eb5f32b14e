"""Residual streams, layer norm and the bent plane: what is drawn is what the model computes."""

import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

from unmasked.feed_forward import FeedForward
from unmasked_book.schematics.drawing import BLUE, GREEN, GREY, ORANGE, YELLOW
from unmasked_book.schematics.layers import (
    BASIS,
    CORNERS,
    bent_plane,
    layer_norm,
    residual_stream,
    written,
)

POINTS = torch.tensor([[1, 2, 6], [4, 3, 2], [0.5, 0, 1], [2, 5, 2], [-1, -3, -2]])
DRAWINGS = {
    "stream": residual_stream(),
    "norm": layer_norm(POINTS),
    "plane": bent_plane(),
}


def shapes(drawing, kind, **attributes):
    found = ElementTree.fromstring(drawing.svg()).iter(f"{{http://www.w3.org/2000/svg}}{kind}")
    wanted = {name.replace("_", "-"): value for name, value in attributes.items()}
    return [s for s in found if all(s.get(name) == value for name, value in wanted.items())]


def corners(shape):
    return [tuple(map(float, pair.split(","))) for pair in shape.get("points").split()]


def middle(shape):
    return float(shape.get("cx")), float(shape.get("cy"))


@pytest.mark.parametrize("name", DRAWINGS)
def test_it_is_well_formed_and_says_in_words_what_it_shows(name):
    drawing = DRAWINGS[name]
    assert ElementTree.fromstring(drawing._repr_html_()).get("aria-label") == drawing.words
    assert len(drawing.words) >= 60
    assert drawing.width == 660


@pytest.mark.parametrize("name", DRAWINGS)
def test_nothing_leaves_the_picture(name):
    drawing = DRAWINGS[name]
    for text in shapes(drawing, "text"):
        half = (2.9 if "small" in text.get("class") else 3.3) * len(text.text)
        assert half <= float(text.get("x")) <= 660 - half
        assert 10 <= float(text.get("y")) <= drawing.height - 3
    for kind in ("polyline", "polygon"):
        for shape in shapes(drawing, kind):
            assert all(0 <= x <= 660 and 0 <= y <= drawing.height for x, y in corners(shape))


# --- The residual stream ----------------------------------------------------------------------


def stream(drawing, left, right):
    """Where the thick line is interrupted, from bottom to top, of the half from left to right."""
    lines = [corners(line) for line in shapes(drawing, "polyline", stroke_width="6")]
    lines = [line for line in lines if left < line[0][0] < right]
    return [(below[-1][1], above[0][1]) for below, above in pairwise(lines)]


def test_two_norms_interrupt_the_stream_of_post_norm():
    assert len(stream(residual_stream(), 0, 330)) == 2


def test_in_pre_norm_nothing_but_the_last_norm_interrupts_it():
    drawing = residual_stream()
    ((below, above),) = stream(drawing, 330, 660)
    assert below - above == 26  # as high as a norm
    pluses = [float(c.get("cy")) for c in shapes(drawing, "circle", r="11")]
    assert len(pluses) == 4
    assert below < min(pluses)  # above all that is added


def test_norms_sit_on_the_line_or_on_the_branch():
    drawing = residual_stream()
    norms = [float(box.get("x")) + 42 for box in shapes(drawing, "rect", fill=YELLOW)]
    lines = [corners(line)[0][0] for line in shapes(drawing, "polyline", stroke_width="6")]
    assert [x in lines for x in norms] == [True, True, True, False, False]
    for colour in (BLUE, GREEN):
        assert len(shapes(drawing, "rect", fill=colour)) == 2


# --- Layer norm -------------------------------------------------------------------------------


def tips(drawing, left, right):
    """Where the vectors end, relative to where they start."""
    lines = [corners(line) for line in shapes(drawing, "polyline", stroke_width="2.5")]
    return torch.tensor([(b[0] - a[0], a[1] - b[1]) for a, b in lines if left < a[0] < right])


def test_after_layer_norm_all_points_lie_on_the_circle():
    drawing = layer_norm(POINTS)
    (ring,) = shapes(drawing, "circle", fill="none")
    normed = tips(drawing, 330, 660)
    assert len(normed) == 5
    assert torch.allclose(normed.norm(dim=1), torch.tensor(float(ring.get("r"))), atol=0.2)


def test_the_arrows_are_what_layer_norm_computes():
    drawing = layer_norm(POINTS)
    (ring,) = shapes(drawing, "circle", fill="none")
    unit = float(ring.get("r")) / math.sqrt(3)
    norm = nn.LayerNorm(3, eps=0, elementwise_affine=False)
    expected = norm(POINTS.double()) @ BASIS.T * unit
    assert torch.allclose(tips(drawing, 330, 660).double(), expected, atol=0.3)
    centred = (POINTS - POINTS.mean(1, keepdim=True)).double()
    assert torch.allclose(tips(drawing, 0, 330).double(), centred @ BASIS.T * unit, atol=0.3)


def test_the_basis_is_one_of_the_plane_of_mean_zero():
    assert torch.allclose(BASIS @ BASIS.T, torch.eye(2).double())
    assert torch.allclose(BASIS.sum(dim=1), torch.zeros(2).double(), atol=1e-12)


def test_tips_are_labelled_with_the_triples_and_words_have_the_numbers():
    drawing = layer_norm(POINTS)
    labels = [text.text for text in shapes(drawing, "text") if text.text.startswith("(")]
    triples = ["(1, 2, 6)", "(4, 3, 2)", "(0.5, 0, 1)", "(2, 5, 2)", "(−1, −3, −2)"]
    assert labels == triples * 2
    assert "(1, 2, 6) of length 3.74" in drawing.words
    assert "(−0.93, −0.46, 1.39)" in drawing.words
    assert "−0.00" not in drawing.words


def test_a_label_of_a_long_arrow_stays_in_its_half():
    drawing = layer_norm(torch.tensor([[1000.25, -1000.25, 0], [-1000.25, 1000.25, 0]]))
    for text in shapes(drawing, "text"):
        half = 2.9 * len(text.text)
        assert float(text.get("x")) - half >= 10
        assert float(text.get("x")) + half <= 650


def test_numbers_are_written_short_or_all_alike():
    assert written([1.0, -2.5, 1 / 3]) == "(1, −2.5, 0.333333)"
    assert written([1.0, -0.001, 1 / 3], 2) == "(1.00, 0.00, 0.33)"


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[1.0, 2.0, 3.0]], "points: expected a Tensor, got list"),
        (torch.ones(3), r"expected at least one row of three, \[n, 3\], got \[3\]"),
        (torch.ones(2, 4), r"got \[2, 4\]"),
        (torch.ones(0, 3), r"got \[0, 3\]"),
        (torch.ones(1, 3), "finite numbers that differ within each row"),
        (torch.tensor([[1.0, math.nan, 2.0]]), "finite numbers"),
        (torch.tensor([[1.0, math.inf, 2.0]]), "finite numbers"),
    ],
)
def test_what_has_no_direction_is_refused(points, message):
    with pytest.raises(ValueError, match=message):
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


def plane(drawing, number):
    """The marks of one plane, in units of its axes: filled points, hollow points."""
    axes = [corners(line) for line in shapes(drawing, "polyline", stroke_opacity="0.4")]
    across, up = axes[2 * number : 2 * number + 2]
    origin, unit = (up[0][0], across[0][1]), (92, 58, 58)[number]
    filled = shapes(drawing, "circle", fill=ORANGE)
    hollow = shapes(drawing, "circle", stroke=BLUE, fill="none")

    def here(marks):
        spots = [((x - origin[0]) / unit, (origin[1] - y) / unit) for x, y in map(middle, marks)]
        low, high = across[0][0] - origin[0], across[1][0] - origin[0]
        inside = [(x, y) for x, y in spots if low <= x * unit <= high]
        return sorted({(round(x), round(y)) for x, y in inside})

    return here(filled), here(hollow)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_points_are_where_the_network_has_them(network, number):
    x = torch.tensor(CORNERS, dtype=torch.float32)[None]
    with torch.no_grad():
        before = network.expand(x)
        spots = [x, before, before.relu()][number][0].int().tolist()
        answers = network(x)[0, :, 0].tolist()
    assert answers == [0, 1, 1, 0]
    by_answer = [
        sorted({tuple(s) for s, a in zip(spots, answers, strict=True) if a == wanted})
        for wanted in (1, 0)
    ]
    assert list(plane(bent_plane(), number)) == by_answer


def side(line, spot):
    (x1, y1), (x2, y2) = line
    return (x2 - x1) * (spot[1] - y1) - (y2 - y1) * (spot[0] - x1) > 0


def test_the_last_line_separates_and_the_dashed_one_does_not():
    drawing = bent_plane()
    filled = [middle(c) for c in shapes(drawing, "circle", fill=ORANGE)]
    hollow = [middle(c) for c in shapes(drawing, "circle", stroke=BLUE, fill="none")]
    (dashed,) = map(corners, shapes(drawing, "polyline", stroke_dasharray="4 3"))
    first = [s for s in hollow if s[0] < 200]
    assert {side(dashed, s) for s in filled if s[0] < 200} == {False}
    assert [side(dashed, s) for s in sorted(first)] == [True, False]
    thick = [corners(line) for line in shapes(drawing, "polyline", stroke_width="2")]
    (solid,) = [line for line in thick if line[0][0] > 460]
    assert {side(solid, s) for s in filled if s[0] > 460} == {True}
    assert {side(solid, s) for s in hollow if s[0] > 460} == {False}


def test_before_relu_the_line_is_straight_and_after_it_bent():
    before, after = [corners(s) for s in shapes(bent_plane(), "polyline", stroke=GREY)]
    assert (len(before), len(after)) == (2, 3)


def test_the_planes_are_labelled():
    texts = [text.text for text in shapes(bent_plane(), "text")]
    assert {"W₁, b₁", "ReLU", "answer 1, twice", "the cut h₁ − 2h₂ = ½", "(1, 0) twice"} <= set(
        texts
    )
    assert texts.count("answer 0") == 2
