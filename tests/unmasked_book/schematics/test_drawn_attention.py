"""Attention drawn: the numbers written are those of attention, everything has its place."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
import torch

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
SCORES, FACTORS = [1.2, 0.4, -0.3, 0.9, -1.1, 0.1], [1, 4, 16]
DRAWINGS = {
    "five_steps": lambda: five_steps(TOKENS, QUERY, KEYS, VALUES, "ein"),
    "query_key_value": lambda: query_key_value(TOKENS, "ein"),
    "split_and_merge": split_and_merge,
    "saturation": lambda: saturation(SCORES, FACTORS),
}


def parts(drawing, tag):
    return [e for e in ElementTree.fromstring(drawing.svg()).iter() if e.tag.endswith(tag)]


def texts(drawing):
    return ["".join(e.itertext()) for e in parts(drawing, "}text")]


def bars(drawing):
    """(x, width, height) of the bars: purple and without round corners."""
    found = [e for e in parts(drawing, "}rect") if e.get("fill") == PURPLE and e.get("rx") is None]
    return [tuple(float(e.get(name)) for name in ("x", "width", "height")) for e in found]


def lines(drawing, colour):
    found = [e for e in parts(drawing, "}polyline") if e.get("stroke") == colour]
    return [[tuple(map(float, p.split(","))) for p in e.get("points").split()] for e in found]


def softmax(scores):
    powers = [math.exp(s) for s in scores]
    return [p / sum(powers) for p in powers]


@pytest.mark.parametrize("make", DRAWINGS.values(), ids=DRAWINGS.keys())
def test_it_is_well_formed_the_same_each_time_and_within_its_page(make):
    drawing = make()
    assert drawing.svg() == make().svg()
    assert len(drawing.words) > 60
    assert drawing.width == 660
    for rect in parts(drawing, "}rect"):
        x, y, width, height = (float(rect.get(n)) for n in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + width <= drawing.width
        assert y + height <= drawing.height
    for text in parts(drawing, "}text"):
        assert 0 < float(text.get("x")) < drawing.width
        assert 0 < float(text.get("y")) < drawing.height


# --- One token by hand ------------------------------------------------------------------------


def test_the_numbers_are_those_of_attention_by_hand():
    drawing = DRAWINGS["five_steps"]()
    weights = softmax([2 / 2**0.5, -2 / 2**0.5, 0, 4 / 2**0.5])
    written = [f"{w:.2f}" for w in weights]
    assert written == ["0.18", "0.01", "0.04", "0.76"]
    mono = ["".join(e.itertext()) for e in parts(drawing, "}text") if "mono" in e.get("class")]
    assert mono == ["2", "−2", "0", "4", "1.41", "−1.41", "0.00", "2.83", *written]
    mean = [
        f"{sum(w * v for w, v in zip(weights, column, strict=True)):.2f}"
        for column in ([-1, -2, 1, 3], [2, -1, -2, 1])
    ]
    assert mean == ["2.12", "1.03"]
    assert "the sum of weight × value is (2.12, 1.03)" in texts(drawing)
    assert "add up to the output (2.12, 1.03)" in drawing.words
    assert "ich 0.18, gern 0.01, ein 0.04, bier 0.76" in drawing.words
    labels = [f"{token}, {w}" for w, token in zip(written, TOKENS, strict=True)]
    assert [text for text in texts(drawing) if text in labels] == labels


def test_the_panels_have_their_titles_in_order():
    titles = [t for t in texts(DRAWINGS["five_steps"]()) if re.match(r"\d \D", t)]
    assert titles == ["1 compare", "2 scores", "3 ÷ √2", "4 softmax", "5 mix"]


def test_the_bars_are_as_long_as_their_numbers():
    found = [width for _, width, _ in bars(DRAWINGS["five_steps"]())]
    scores, divided, weights = found[:4], found[4:8], found[8:]
    assert scores[3] == pytest.approx(2 * scores[0], rel=0.01)
    assert scores[1] == pytest.approx(scores[0], rel=0.01)
    assert scores[2] == 0
    assert divided[3] == pytest.approx(scores[3] / 2**0.5, rel=0.01)
    expected = softmax([2 / 2**0.5, -2 / 2**0.5, 0, 4 / 2**0.5])
    for width, weight in zip(weights, expected, strict=True):
        assert width / sum(weights) == pytest.approx(weight, abs=0.003)


def test_a_negative_score_goes_to_the_other_side():
    positive, negative, *_ = bars(DRAWINGS["five_steps"]())
    assert negative[0] + negative[1] == pytest.approx(positive[0], abs=0.2)


def test_the_arrows_point_where_the_vectors_do():
    drawing = DRAWINGS["five_steps"]()
    for colour, vectors in ((BLUE, KEYS), (GREEN, VALUES)):
        for (start, end), (x, y) in zip(lines(drawing, colour), vectors.tolist(), strict=True):
            angle = math.atan2(start[1] - end[1], end[0] - start[0])
            assert angle == pytest.approx(math.atan2(y, x), abs=0.01)
    (_, query), (start, output) = lines(drawing, ORANGE)
    angle = math.atan2(start[1] - output[1], output[0] - start[0])
    assert angle == pytest.approx(math.atan2(1.03, 2.12), abs=0.02)
    assert query[0] == pytest.approx(lines(drawing, BLUE)[3][1][0], abs=0.2)


def test_the_query_stands_beside_a_key_that_it_would_hide_and_only_then():
    def distance(keys):
        drawing = five_steps(TOKENS, QUERY, keys, VALUES, "ein")
        (start, _), key = lines(drawing, ORANGE)[0], lines(drawing, BLUE)[0]
        return math.dist(start, key[0])

    assert distance(KEYS) == pytest.approx(6, abs=0.2)
    assert distance(-KEYS) == 0  # the last now points the other way, and none this way


def test_values_fade_with_their_weights():
    found = [e for e in parts(DRAWINGS["five_steps"](), "}polyline") if e.get("stroke") == GREEN]
    opacity = [float(e.get("stroke-opacity")) for e in found]
    assert sorted(range(4), key=opacity.__getitem__) == [1, 2, 0, 3]


def test_an_output_below_the_axis_is_named_below_and_nothing_is_too_small_to_draw():
    def height(values):
        drawing = five_steps(TOKENS, QUERY, KEYS, values, "ein")
        output = next(e for e in parts(drawing, "}text") if e.text == "output")
        return float(output.get("y")) - lines(drawing, ORANGE)[1][1][1]

    assert height(VALUES) < 0 < height(-VALUES)
    assert "output (0, 0)" in five_steps(TOKENS, QUERY * 0, KEYS, VALUES * 0, "ein").words


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": []}, "tokens: expected 1 to 5"),
        ({"tokens": ["ich"] * 6}, "tokens: expected 1 to 5"),
        ({"tokens": ["Donaudampfer", "gern", "ein", "bier"]}, "up to 6 letters"),
        ({"chosen": "wein"}, "chosen: expected 'ich' or 'gern'"),
        ({"query": torch.zeros(3)}, "query: expected numbers"),
        ({"keys": torch.zeros(3, 2)}, r"keys: expected numbers from -9 to 9, \[4, 2\]"),
        ({"values": torch.full((4, 2), 10.0)}, "values: expected numbers from -9 to 9"),
        ({"values": torch.full((4, 2), math.nan)}, "values: expected numbers from -9 to 9"),
    ],
)
def test_what_cannot_be_drawn_by_hand_is_named(change, message):
    given = {"tokens": TOKENS, "query": QUERY, "keys": KEYS, "values": VALUES, "chosen": "ein"}
    with pytest.raises(ValueError, match=message):
        five_steps(**given | change)


# --- The flow for one token -------------------------------------------------------------------


def test_every_token_has_a_key_and_a_value_and_one_a_query():
    drawing = query_key_value(TOKENS, "ein")
    said = texts(drawing)
    assert [said.count(token) for token in TOKENS] == [5, 5, 6, 5]  # x, key, value, score, weight
    assert [said.count(f"W{index}") for index in "QKV"] == [1, 1, 1]
    assert said.count("·") == said.count("×") == 4
    assert "output for “ein”" in said
    of_query = [e for e in parts(drawing, "}rect") if e.get("fill") == ORANGE]
    assert len(of_query) == 4  # its x, W_Q, the query and the output


@pytest.mark.parametrize("chosen", TOKENS)
def test_the_query_comes_from_the_chosen_tokens_vector(chosen):
    drawing = query_key_value(TOKENS, chosen)
    start = lines(drawing, ORANGE)[0][0]
    vector = next(e for e in parts(drawing, "}text") if e.text == chosen)
    assert start[0] == pytest.approx(float(vector.get("x")), abs=0.1)


def test_a_chosen_token_must_be_there():
    with pytest.raises(ValueError, match="chosen: expected 'ich'"):
        query_key_value(TOKENS, "wein")
    with pytest.raises(ValueError, match="tokens: expected 1 to 5"):
        query_key_value([], "wein")


# --- Heads ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d_model", "n_heads"), [(12, 3), (8, 4), (24, 4), (4, 1)])
def test_as_many_numbers_as_the_width_in_all_six_rows(d_model, n_heads):
    drawing = split_and_merge(d_model, n_heads)
    rows = {}
    for e in parts(drawing, "}rect"):
        if e.get("rx") is None:
            rows.setdefault(e.get("y"), []).append((float(e.get("x")), e.get("fill-opacity")))
    assert [len(row) for row in rows.values()] == [d_model] * 6
    strengths = [[strength for _, strength in row] for row in rows.values()]
    assert strengths[1] == strengths[2]  # the same numbers, only cut
    assert strengths[3] == strengths[4]
    _, _, cut, *_ = rows.values()
    steps = {round(b - a) for (a, _), (b, _) in pairwise(cut)}
    assert len(steps) == (2 if n_heads > 1 else 1)
    assert [f"head {i + 1}" in texts(drawing) for i in range(n_heads + 1)] == [
        *[True] * n_heads,
        False,
    ]
    assert f"K = D / H = {d_model // n_heads}" in texts(drawing)


def test_the_shapes_stand_beside():
    shapes = [text for text in texts(split_and_merge()) if text.startswith("[")]
    whole, heads, matrix = "[B, T, D]", "[B, H, T, K]", "[D, D]"
    assert shapes == [whole, matrix, whole, heads, heads, whole, matrix, whole]


def test_heads_that_have_no_room_are_named():
    with pytest.raises(ValueError, match="a divisor of d_model=12"):
        split_and_merge(12, 5)
    for d_model, n_heads in ((10, 5), (4, 4), (26, 2)):
        with pytest.raises(ValueError, match="d_model: expected up to 4 heads, at least 2 wide"):
            split_and_merge(d_model, n_heads)


# --- Scores that are too large ----------------------------------------------------------------


def test_the_bars_are_the_softmax_and_entropy_and_slope_fall():
    drawing = saturation(SCORES, FACTORS)
    heights = [height for _, _, height in bars(drawing)]
    said = texts(drawing)
    for i, factor in enumerate(FACTORS):
        weights = softmax([factor * s for s in SCORES])
        panel = heights[6 * i : 6 * i + 6]
        for height, weight in zip(panel, weights, strict=True):
            assert height / sum(panel) == pytest.approx(weight, abs=0.001)
        entropy = -sum(w * math.log2(w) for w in weights)
        slope = sum(w * (1 - w) for w in weights)
        assert f"scores × {factor}" in said
        assert f"entropy {entropy:.2f} bits" in said
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
        ([1.0, 2.0], [1, 50], "factors: expected scores that stay below 100"),
        ([1.0, math.nan], [1], "factors: expected scores that stay below 100"),
    ],
)
def test_scores_that_have_no_room_are_named(scores, factors, message):
    with pytest.raises(ValueError, match=message):
        saturation(scores, factors)


def test_numbers_are_written_with_a_true_minus_and_zero_without():
    assert [number(x) for x in (2.0, -1.5, -0.001, 19.2)] == ["2", "−1.5", "0", "19.2"]
    assert [number(x, 2) for x in (2.0, -1.5, -0.001)] == ["2.00", "−1.50", "0.00"]
