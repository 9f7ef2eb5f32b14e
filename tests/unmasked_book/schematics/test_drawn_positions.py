"""Positions drawn: every hand stands where sine and cosine say, every digit is right."""

import pytest

from helpers.drawings import lines, numbers, shapes, texts
from unmasked.positions import sinusoids
from unmasked_book.schematics.drawing import BLUE, PURPLE
from unmasked_book.schematics.positions import RADIUS, clock_hands


@pytest.mark.parametrize(("positions", "d_model"), [(range(8), 8), ([0, 3, 60], 4), ([0], 2)])
def test_a_clock_for_every_position_and_pair_at_its_sine_and_cosine(positions, d_model):
    drawing = clock_hands(positions, d_model)
    assert len(shapes(drawing, "circle", r=str(RADIUS))) == len(positions) * d_model // 2
    hands = [
        ((end[0] - start[0]) / (RADIUS - 3), (start[1] - end[1]) / (RADIUS - 3))
        for start, end in lines(drawing, stroke=BLUE)
    ]
    expected = [pair for p in positions for pair in sinusoids(p, 1, d_model).view(-1, 2).tolist()]
    assert len(hands) == len(expected)
    for hand, pair in zip(hands, expected, strict=True):
        assert hand == pytest.approx(pair, abs=0.012)  # to the right the sine, up the cosine


def test_the_digits_are_binary_with_the_lowest_first():
    drawing = clock_hands(range(8))
    boxes = shapes(drawing, "rect", fill=PURPLE)
    digits = texts(drawing, **{"class": "mono"})
    assert [digit == "1" for digit in digits] == [numbers(b, "fill-opacity")[0] > 0 for b in boxes]
    rows = [digits[i : i + 3] for i in range(0, 24, 3)]
    assert [sum(int(d) << i for i, d in enumerate(row)) for row in rows] == [*range(8)]


def test_speeds_are_named_and_the_words_tell_angles_and_digits():
    drawing = clock_hands(range(8))
    said = texts(drawing)
    assert {f"pair {i}" for i in range(4)} | {f"position {p}" for p in range(8)} <= {*said}
    assert {"1 rad", "0.1 rad", "0.01 rad", "0.001 rad"} <= {*said}
    counts = [texts(clock_hands(range(n), d)).count("fast") for n, d in ((8, 8), (2, 8), (1, 2))]
    assert counts == [2, 1, 0]  # an arrow to slow only where there is room
    assert "Position 6: hands at 6, 0.6, 0.06, 0.006 rad, binary 0 1 1." in drawing.words
    assert "pair 3 by 0.001" in drawing.words


@pytest.mark.parametrize(
    ("positions", "d_model", "argument"),
    [
        *((wrong, 8, "positions") for wrong in ([], range(17), [-1], [64], [0.5])),
        *(([0], wrong, "d_model") for wrong in (0, 3, 10)),
    ],
)
def test_what_has_no_room_is_named(positions, d_model, argument):
    with pytest.raises(ValueError, match=f"^{argument}: expected"):
        clock_hands(positions, d_model)
