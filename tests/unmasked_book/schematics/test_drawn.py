"""What is drawn is what is computed: attention, layers, positions, and one word after the other."""

import math

import pytest
import torch
from torch import nn

from helpers.drawings import lines, numbers, shapes, texts
from unmasked.feed_forward import FeedForward
from unmasked.positions import sinusoids
from unmasked_book.schematics.attention import (
    five_steps,
    saturation,
    split_and_merge,
)
from unmasked_book.schematics.decoder import growing_cache, teacher_forcing
from unmasked_book.schematics.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE
from unmasked_book.schematics.journey import journey
from unmasked_book.schematics.layers import (
    BASIS,
    CORNERS,
    bent_plane,
    layer_norm,
)
from unmasked_book.schematics.positions import RADIUS, clock_hands


def bars(drawing, name):
    """The width or height of each bar: purple and without round corners."""
    return [numbers(bar, name)[0] for bar in shapes(drawing, "rect", fill=PURPLE, rx=None)]


def softmax(scores):
    return torch.tensor(scores).double().softmax(0).tolist()


def rows(drawing):
    """The words in mono, line by line from the top."""
    found = {}
    for text in shapes(drawing, "text", **{"class": "mono"}):
        found.setdefault(numbers(text, "y"), []).append(text.text)
    return [found[y] for y in sorted(found)]


# --- Attention --------------------------------------------------------------------------------


def test_the_numbers_are_those_of_attention_by_hand():
    keys = torch.tensor([[1, 1], [-1, 1], [0, -1], [2, 0]])
    values = torch.tensor([[-1, 2], [-2, -1], [1, -2], [3, 1]])
    tokens, scores = ["ich", "gern", "ein", "bier"], [2, -2, 0, 4]
    drawing = five_steps(tokens, torch.tensor([2, 0]), keys, values, "ein")
    weights = softmax([score / 2**0.5 for score in scores])
    mono = [text.text for text in shapes(drawing, "text") if "mono" in text.get("class")]
    said = [f"{weight:.2f}" for weight in weights]
    assert mono == ["2", "−2", "0", "4", "1.41", "−1.41", "0.00", "2.83", *said]
    mean = torch.tensor(weights) @ values.float()
    assert f"({mean[0]:.2f}, {mean[1]:.2f})" in drawing.words
    widths = bars(drawing, "width")
    assert widths[:4] == pytest.approx([abs(s) * widths[3] / 4 for s in scores], rel=0.01)
    assert [w / sum(widths[8:]) for w in widths[8:]] == pytest.approx(weights, abs=0.003)
    for colour, vectors in ((BLUE, keys), (GREEN, values), (ORANGE, torch.tensor([[2, 0], mean]))):
        for ((x, y), (to_x, to_y)), (a, b) in zip(
            lines(drawing, stroke=colour), vectors.tolist(), strict=True
        ):
            assert math.atan2(y - to_y, to_x - x) == pytest.approx(math.atan2(b, a), abs=0.02)


@pytest.mark.parametrize(("d_model", "n_heads"), [(12, 3), (4, 1)])
def test_heads_share_out_the_numbers_and_are_put_together_again(d_model, n_heads):
    drawing, cells = split_and_merge(d_model, n_heads), {}
    for cell in shapes(drawing, "rect", rx=None):
        cells.setdefault(cell.get("y"), []).append(numbers(cell, "fill-opacity"))
    strengths = [*cells.values()]
    assert [len(row) for row in strengths] == [d_model] * 6
    assert (strengths[1], strengths[3]) == (strengths[2], strengths[4])  # only cut, only joined
    names = {text for text in texts(drawing) if text.startswith("head ")}
    assert names == {f"head {i + 1}" for i in range(n_heads)}


def test_the_bars_are_the_softmax_and_entropy_and_slope_are_said():
    scores, factors = [1.2, 0.4, -0.3, 0.9, -1.1, 0.1], [1, 4, 16]
    drawing = saturation(scores, factors)
    for i, factor in enumerate(factors):
        weights = softmax([factor * s for s in scores])
        panel = bars(drawing, "height")[6 * i : 6 * i + 6]
        assert [height / sum(panel) for height in panel] == pytest.approx(weights, abs=0.001)
        entropy = -sum(w * math.log2(w) for w in weights)
        slope = sum(w * (1 - w) for w in weights)
        assert f"entropy {entropy:.2f} bits, slope Σ w(1 − w) {slope:.2f}" in drawing.words


# --- The decoder ------------------------------------------------------------------------------


def test_words_are_predicted_from_those_before_given_or_its_own():
    target = ["i'd", "like", "a", "beer"]
    drawing = teacher_forcing(["ich", "bier"], target)
    found = rows(drawing)
    assert [*target, "<eos>"] in found  # above what is given, shifted by one
    assert ["<bos>", *target] in found
    assert found[-2:] == [target[:3], ["<bos>", "<bos>", "i'd", "<bos>", "i'd", "like"]]
    assert "beer must predict <eos>" in drawing.words
    assert rows(teacher_forcing(["ja"], ["yes"]))[-2:] == [
        ["yes", "<eos>"],
        ["<bos>", "<bos>", "yes"],
    ]


@pytest.mark.parametrize("length", [1, 5])
def test_each_step_computes_one_position_and_keeps_the_others(length):
    tokens, total = ["<bos>", "i'd", "like", "a", "beer"][:length], length * (length + 1) // 2
    drawing = growing_cache(tokens)
    assert rows(drawing) == [tokens[:n] for n in range(1, length + 1)]
    assert len(shapes(drawing, "rect", fill=ORANGE, height="26")) == length
    assert len(shapes(drawing, "rect", fill=BLUE, height="26")) == total - length
    assert len(lines(drawing, stroke=ORANGE)) == total  # from each query to every key
    assert f"together {total}, which is T(T + 1)/2" in drawing.words


# --- The journey of a sentence ----------------------------------------------------------------


def test_a_journey_shows_what_it_is_given():
    vectors = torch.randn(2, 16)
    given = {"pieces": ["ich", "<eos>"], "ids": [12, 2], "vectors": vectors, "layers": 4}
    drawing = journey(**given, answer=[("i'd", 0.62), ("we", 0.0)], memory=-vectors)
    places = {text.text: text.get("x") for text in shapes(drawing, "text")}
    assert (places["ich"], places["<eos>"]) == (places["12"], places["2"])
    cells = shapes(drawing, "rect", width="10", height="10")
    shown = torch.cat([vectors[:, :8], -vectors[:, :8]], dim=1).flatten()
    assert [cell.get("fill") for cell in cells] == [BLUE if v > 0 else ORANGE for v in shown]
    strengths = torch.tensor([numbers(cell, "fill-opacity")[0] for cell in cells])
    assert torch.allclose(strengths, shown.abs() / shown.abs().max(), atol=0.006)
    assert bars(drawing, "width") == [52, 1]  # the shortest, for what is impossible
    assert "a vector of 16 numbers" in drawing.words
    assert "i'd 0.62, we 0.00." in drawing.words
    without = journey(**given, answer=[("a", 0.5)])
    assert len(shapes(without, "rect", width="10", height="10", fill=GREY)) == 2 * 8


# --- Layers -----------------------------------------------------------------------------------


def test_the_arrows_are_what_layer_norm_computes():
    points = torch.tensor([[1, 2, 6], [4, 3, 2], [0.5, 0, 1], [-1, -3, -2]])
    drawing = layer_norm(points)
    [ring] = shapes(drawing, "circle", fill="none")
    unit = numbers(ring, "r")[0] / math.sqrt(3)
    arrows = torch.tensor(lines(drawing, stroke_width="2.5"), dtype=torch.float64)
    tips = (arrows[:, 1] - arrows[:, 0]) * torch.tensor([1, -1])  # from where they start
    after = arrows[:, 0, 0] > 330
    normed = nn.LayerNorm(3, eps=0, elementwise_affine=False)(points.double())
    centred = (points - points.mean(1, keepdim=True)).double()
    assert torch.allclose(tips[after], normed @ BASIS.T * unit, atol=0.3)
    assert torch.allclose(tips[~after], centred @ BASIS.T * unit, atol=0.3)
    assert torch.allclose(BASIS @ BASIS.T, torch.eye(2).double())
    assert "(1, 2, 6) of length 3.74" in drawing.words


@pytest.mark.parametrize("number", [0, 1, 2])
def test_points_of_the_bent_plane_are_where_a_network_has_them(number):
    network = FeedForward(2, 2)
    with torch.no_grad():
        network.expand.weight.fill_(1.0)
        network.expand.bias.copy_(torch.tensor([0.0, -1.0]))
        network.contract.weight.copy_(torch.tensor([[1.0, -2.0], [0.0, 0.0]]))
        network.contract.bias.zero_()
        x = torch.tensor(CORNERS, dtype=torch.float32)[None]
        before = network.expand(x)
        spots = [x, before, before.relu()][number][0].int().tolist()
        answers = network(x)[0, :, 0].tolist()
    assert answers == [0, 1, 1, 0]
    across, up = lines(bent_plane(), stroke_opacity="0.4")[2 * number : 2 * number + 2]
    origin, unit = (up[0][0], across[0][1]), (92, 58, 58)[number]
    filled = shapes(bent_plane(), "circle", fill=ORANGE)
    hollow = shapes(bent_plane(), "circle", stroke=BLUE, fill="none")
    for wanted, marks in ((1, filled), (0, hollow)):
        places = [numbers(mark, "cx", "cy") for mark in marks]
        here = [(x, y) for x, y in places if across[0][0] <= x <= across[1][0]]
        drawn = {(round((x - origin[0]) / unit), round((origin[1] - y) / unit)) for x, y in here}
        assert drawn == {tuple(s) for s, a in zip(spots, answers, strict=True) if a == wanted}


# --- Positions --------------------------------------------------------------------------------


def test_every_hand_stands_at_its_sine_and_cosine_and_the_digits_are_binary():
    drawing = clock_hands(range(8), 8)
    hands = [
        ((end[0] - start[0]) / (RADIUS - 3), (start[1] - end[1]) / (RADIUS - 3))
        for start, end in lines(drawing, stroke=BLUE)
    ]
    table = sinusoids(0, 8, 8).view(-1, 2)  # to the right the sine, up the cosine
    assert torch.allclose(torch.tensor(hands, dtype=table.dtype), table, atol=0.012)
    digits = texts(drawing, **{"class": "mono"})
    found = [digits[i : i + 3] for i in range(0, 24, 3)]
    assert [sum(int(d) << i for i, d in enumerate(row)) for row in found] == [*range(8)]
    assert "Position 6: hands at 6, 0.6, 0.06, 0.006 rad, binary 0 1 1." in drawing.words
