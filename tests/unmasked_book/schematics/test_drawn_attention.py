"""Attention drawn: the numbers written are those of attention, everything has its place."""

import math

import pytest
import torch

from helpers.drawings import lines, numbers, shapes, texts
from unmasked_book.schematics.attention import (
    five_steps,
    number,
    query_key_value,
    saturation,
    split_and_merge,
)
from unmasked_book.schematics.drawing import BLUE, GREEN, ORANGE, PURPLE

TOKENS = ["ich", "gern", "ein", "bier"]
QUERY = torch.tensor([2, 0])
KEYS = torch.tensor([[1, 1], [-1, 1], [0, -1], [2, 0]])
VALUES = torch.tensor([[-1, 2], [-2, -1], [1, -2], [3, 1]])
BY_HAND = {"tokens": TOKENS, "query": QUERY, "keys": KEYS, "values": VALUES, "chosen": "ein"}


def bars(drawing):
    """(x, width, height) of the bars: purple and without round corners."""
    found = shapes(drawing, "rect", fill=PURPLE, rx=None)
    return [numbers(bar, "x", "width", "height") for bar in found]


def softmax(scores):
    powers = [math.exp(s) for s in scores]
    return [p / sum(powers) for p in powers]


def direction(line):
    (x, y), (to_x, to_y) = line
    return math.atan2(y - to_y, to_x - x)


# --- One token by hand ------------------------------------------------------------------------


def test_the_numbers_are_those_of_attention_by_hand():
    drawing, scores = five_steps(**BY_HAND), [2, -2, 0, 4]
    weights = softmax([score / 2**0.5 for score in scores])
    said = [f"{weight:.2f}" for weight in weights]
    mono = [text.text for text in shapes(drawing, "text") if "mono" in text.get("class")]
    assert mono == ["2", "−2", "0", "4", "1.41", "−1.41", "0.00", "2.83", *said]
    columns = VALUES.T.tolist()
    mean = [sum(w * v for w, v in zip(weights, column, strict=True)) for column in columns]
    output = f"({mean[0]:.2f}, {mean[1]:.2f})"
    assert f"the sum of weight × value is {output}" in texts(drawing)
    assert f"add up to the output {output}" in drawing.words
    assert "ich 0.18, gern 0.01, ein 0.04, bier 0.76" in drawing.words
    widths = [width for _, width, _ in bars(drawing)]
    assert widths[:4] == pytest.approx([abs(s) * widths[3] / 4 for s in scores], rel=0.01)
    assert widths[7] == pytest.approx(widths[3] / 2**0.5, rel=0.01)
    assert [w / sum(widths[8:]) for w in widths[8:]] == pytest.approx(weights, abs=0.003)
    for colour, vectors in ((BLUE, KEYS), (GREEN, VALUES)):
        for line, (x, y) in zip(lines(drawing, stroke=colour), vectors.tolist(), strict=True):
            assert direction(line) == pytest.approx(math.atan2(y, x), abs=0.01)
    assert direction(lines(drawing, stroke=ORANGE)[1]) == pytest.approx(
        math.atan2(mean[1], mean[0]), abs=0.02
    )
    faded = [numbers(s, "stroke-opacity")[0] for s in shapes(drawing, "polyline", stroke=GREEN)]
    assert sorted(range(4), key=faded.__getitem__) == [1, 2, 0, 3]  # with their weights


def test_what_is_hidden_or_nothing_is_drawn_too():
    (start, _), _ = lines(five_steps(**BY_HAND), stroke=ORANGE)
    key, *_ = lines(five_steps(**BY_HAND), stroke=BLUE)
    assert start != key[0]  # the query, beside a key that it would hide
    nothing = five_steps(**BY_HAND | {"query": QUERY * 0, "values": -VALUES * 0})
    assert "output (0, 0)" in nothing.words
    assert "output (−2.12, −1.03)" in five_steps(**BY_HAND | {"values": -VALUES}).words


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": []}, "tokens: expected 1 to 5"),
        ({"tokens": ["ich"] * 6}, "tokens: expected 1 to 5"),
        ({"tokens": ["Donaudampfer", "gern", "ein", "bier"]}, "tokens: .* 6 letters"),
        ({"chosen": "wein"}, "chosen: expected 'ich' or 'gern'"),
        ({"query": torch.zeros(3)}, "query: expected numbers"),
        ({"keys": torch.zeros(3, 2)}, r"keys: .* from -9 to 9, \[4, 2\]"),
        ({"values": torch.full((4, 2), 10.0)}, "values: .* from -9 to 9"),
        ({"values": torch.full((4, 2), math.nan)}, "values: .* from -9 to 9"),
    ],
)
def test_what_cannot_be_drawn_by_hand_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        five_steps(**BY_HAND | change)


# --- The flow for one token -------------------------------------------------------------------


@pytest.mark.parametrize("chosen", ["ich", "ein"])
def test_every_token_has_a_key_and_a_value_and_the_chosen_one_a_query(chosen):
    drawing = query_key_value(TOKENS, chosen)
    said = texts(drawing)
    # Each stands at its x, key, value, score and weight:
    assert [said.count(token) for token in TOKENS] == [5 + (token == chosen) for token in TOKENS]
    assert [said.count(f"W{index}") for index in "QKV"] == [1, 1, 1]
    assert f"output for “{chosen}”" in said
    assert len(shapes(drawing, "rect", fill=ORANGE)) == 4  # its x, W_Q, the query and the output


@pytest.mark.parametrize(("tokens", "argument"), [(TOKENS, "chosen"), ([], "tokens")])
def test_a_chosen_token_must_be_there(tokens, argument):
    with pytest.raises(ValueError, match=f"{argument}: expected"):
        query_key_value(tokens, "wein")


# --- Heads ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d_model", "n_heads"), [(12, 3), (24, 4), (4, 1)])
def test_as_many_numbers_as_the_width_in_all_six_rows(d_model, n_heads):
    drawing, rows = split_and_merge(d_model, n_heads), {}
    for cell in shapes(drawing, "rect", rx=None):
        rows.setdefault(cell.get("y"), []).append(numbers(cell, "x", "fill-opacity"))
    assert [len(row) for row in rows.values()] == [d_model] * 6
    strengths = [[strength for _, strength in row] for row in rows.values()]
    assert strengths[1] == strengths[2]  # the same numbers, only cut
    assert strengths[3] == strengths[4]
    said = texts(drawing)
    names = [text for text in said if text.startswith("head ")]
    assert sorted(set(names)) == [f"head {i + 1}" for i in range(n_heads)]
    assert f"K = D / H = {d_model // n_heads}" in said
    whole, heads, matrix = "[B, T, D]", "[B, H, T, K]", "[D, D]"
    shown = [text for text in said if text.startswith("[")]
    assert shown == [whole, matrix, whole, heads, heads, whole, matrix, whole]


@pytest.mark.parametrize(
    ("d_model", "n_heads", "message"),
    [(12, 5, "a divisor of d_model=12")]
    + [(d, n, "d_model: expected up to 4 heads") for d, n in ((10, 5), (4, 4), (26, 2))],
)
def test_heads_that_have_no_room_are_named(d_model, n_heads, message):
    with pytest.raises(ValueError, match=message):
        split_and_merge(d_model, n_heads)


# --- Scores that are too large ----------------------------------------------------------------


def test_the_bars_are_the_softmax_and_entropy_and_slope_fall():
    scores, factors = [1.2, 0.4, -0.3, 0.9, -1.1, 0.1], [1, 4, 16]
    drawing = saturation(scores, factors)
    heights, said = [height for _, _, height in bars(drawing)], texts(drawing)
    for i, factor in enumerate(factors):
        weights = softmax([factor * s for s in scores])
        panel = heights[6 * i : 6 * i + 6]
        assert [height / sum(panel) for height in panel] == pytest.approx(weights, abs=0.001)
        entropy = -sum(w * math.log2(w) for w in weights)
        slope = sum(w * (1 - w) for w in weights)
        assert {f"scores × {factor}", f"entropy {entropy:.2f} bits"} <= set(said)
        assert f"slope Σ w(1 − w) = {slope:.2f}" in said
        assert f"entropy {entropy:.2f} bits, slope Σ w(1 − w) {slope:.2f}" in drawing.words
    assert "19.2 gets 0.99" in drawing.words
    assert "−18" in said  # shorter, where long ones would touch


@pytest.mark.parametrize(
    ("scores", "factors", "message"),
    [
        ([1.0], [1], "scores: expected 2 to 6"),
        ([1.0] * 7, [1], "scores: expected 2 to 6"),
        ([1.0, 2.0], [], "factors: expected 1 to 3"),
        ([1.0, 2.0], [1, 2, 3, 4], "factors: expected 1 to 3"),
        ([1.0, 2.0], [1, 50], "factors: .* below 100"),
        ([1.0, math.nan], [1], "factors: .* below 100"),
    ],
)
def test_scores_that_have_no_room_are_named(scores, factors, message):
    with pytest.raises(ValueError, match=message):
        saturation(scores, factors)


def test_numbers_are_written_with_a_true_minus_and_zero_without():
    assert [number(x) for x in (2.0, -1.5, -0.001, 19.2)] == ["2", "−1.5", "0", "19.2"]
    assert [number(x, 2) for x in (2.0, -1.5, -0.001)] == ["2.00", "−1.50", "0.00"]
