"""Positions drawn: every hand stands where sine and cosine say, every digit is right."""

import math
from xml.etree import ElementTree

import pytest

from unmasked.positions import sinusoids
from unmasked_book.schematics.drawing import BLUE, PURPLE
from unmasked_book.schematics.positions import RADIUS, clock_hands


def parts(drawing, tag):
    return [e for e in ElementTree.fromstring(drawing.svg()).iter() if e.tag.endswith(tag)]


def texts(drawing):
    return [e.text for e in parts(drawing, "}text")]


def clocks(drawing):
    return [e for e in parts(drawing, "}circle") if float(e.get("r")) == RADIUS]


def hands(drawing):
    """How far each hand reaches to the right and up, of its length."""
    found = [e.get("points") for e in parts(drawing, "}polyline") if e.get("stroke") == BLUE]
    ends = [[tuple(map(float, p.split(","))) for p in points.split()] for points in found]
    long = RADIUS - 3
    return [((b[0] - a[0]) / long, (a[1] - b[1]) / long) for a, b in ends]


@pytest.mark.parametrize(("positions", "d_model"), [(range(8), 8), ([0, 3, 60], 4), ([0], 2)])
def test_a_clock_for_every_position_and_pair_at_its_sine_and_cosine(positions, d_model):
    drawing = clock_hands(positions, d_model)
    assert len(clocks(drawing)) == len(positions) * d_model // 2
    expected = [
        pair
        for p in positions
        for pair in sinusoids(p, 1, d_model).view(-1, 2).tolist()  # sine, cosine
    ]
    for (right, up), (sine, cosine) in zip(hands(drawing), expected, strict=True):
        assert right == pytest.approx(sine, abs=0.012)
        assert up == pytest.approx(cosine, abs=0.012)


def test_after_one_step_the_fastest_hand_has_turned_by_one_radian_clockwise():
    right, up = hands(clock_hands(range(8)))[4]
    assert math.atan2(right, up) == pytest.approx(1, abs=0.02)


def test_the_digits_are_binary_with_the_lowest_first():
    drawing = clock_hands(range(8))
    boxes = [e for e in parts(drawing, "}rect") if e.get("fill") == PURPLE]
    filled = [float(e.get("fill-opacity")) > 0 for e in boxes]
    digits = [e.text for e in parts(drawing, "}text") if e.get("class") == "mono"]
    assert [digit == "1" for digit in digits] == filled
    rows = [digits[i : i + 3] for i in range(0, 24, 3)]
    assert rows[1] == ["1", "0", "0"]
    assert [sum(int(d) << i for i, d in enumerate(row)) for row in rows] == [*range(8)]


def test_the_headers_name_the_speeds():
    said = texts(clock_hands(range(8)))
    assert [f"pair {i}" in said for i in range(5)] == [True] * 4 + [False]
    assert {"1 rad", "0.1 rad", "0.01 rad", "0.001 rad"} <= {*said}
    assert [text for text in said if text.startswith("position")] == [
        f"position {p}" for p in range(8)
    ]
    assert said.count("fast") == said.count("slow") == 2


def test_an_arrow_from_fast_to_slow_only_where_there_is_room():
    assert texts(clock_hands([0, 1], 8)).count("fast") == 1
    assert "fast" not in texts(clock_hands([0], 2))


def test_the_words_tell_angles_and_digits():
    drawing = clock_hands(range(8))
    assert "Position 6: hands at 6, 0.6, 0.06, 0.006 rad, binary 0 1 1." in drawing.words
    assert "pair 3 by 0.001" in drawing.words
    assert clock_hands(range(8)).svg() == drawing.svg()


def test_everything_lies_on_the_page():
    drawing = clock_hands([0, 63], 8)
    for rect in parts(drawing, "}rect"):
        assert float(rect.get("x")) + float(rect.get("width")) <= drawing.width == 660
        assert float(rect.get("y")) + float(rect.get("height")) <= drawing.height
    for text in parts(drawing, "}text"):
        assert 0 < float(text.get("x")) < drawing.width
        assert 0 < float(text.get("y")) < drawing.height


@pytest.mark.parametrize("positions", [[], range(17), [-1], [64], [0.5]])
def test_positions_without_room_are_named(positions):
    with pytest.raises(ValueError, match="positions: expected 1 to 16 of them, from 0 to 63"):
        clock_hands(positions)


@pytest.mark.parametrize("d_model", [0, 3, 10])
def test_a_width_without_pairs_or_room_is_named(d_model):
    with pytest.raises(ValueError, match="d_model: expected 2 or 4 or 6 or 8"):
        clock_hands([0], d_model)
