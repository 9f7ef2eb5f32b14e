"""Positions drawn: each a row of clocks, from fast to slow, beside the same number in binary."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unmasked.errors import check_choice, invalid
from unmasked.positions import frequencies
from unmasked_book.schematics.drawing import BLUE, GREY, PURPLE, Drawing

TOP, PITCH, RADIUS = 66, 52, 21  # where the rows begin; from row to row; of a clock
CLOCKS, CLOCK = 96, 97  # where the clocks begin; from clock to clock
DIGIT = 42  # from digit to digit, at most


def clock_hands(positions: Sequence[int], d_model: int = 8) -> Drawing:
    """A row for each position: a clock for each pair of columns, and the position in binary.

    A hand reaches as far to the right as the sine, and as far up as the cosine.
    """
    check_choice("d_model", d_model, [2, 4, 6, 8])
    drawn = [type(p) is int and 0 <= p <= 63 for p in positions]
    if not 1 <= len(drawn) <= 16 or not all(drawn):
        fix = "more rows or digits have no room"
        raise invalid("positions", "1 to 16 of them, from 0 to 63", list(positions), fix)
    turns = frequencies(d_model).tolist()
    bits = max(1, max(positions).bit_length())
    bottom = TOP + PITCH * len(positions)
    pen = Drawing(words(positions, turns, bits), 660, bottom + 66)
    dials = [CLOCKS + (i + 0.5) * CLOCK for i in range(len(turns))]
    digits = columns(dials[-1] + CLOCK / 2 + 24, bits)
    headers(pen, turns, dials, digits)
    for row, position in enumerate(positions):
        y = TOP + (row + 0.5) * PITCH
        pen.text(8, y + 4.5, f"position {position}", "start")
        for x, turn in zip(dials, turns, strict=True):
            clock(pen, x, y, turn * position)
        for x, digit in zip(digits, binary(position, bits), strict=True):
            pen.box(x - 10, y - 12, 20, 24, digit, PURPLE, 0.45 if digit == "1" else 0.0, "mono")
    slower(pen, dials, bottom + 22)
    slower(pen, digits, bottom + 22)
    pen.text(
        8, bottom + 54, "How far a hand reaches to the right is the sine, how far up the cosine.",
        "small start",
    )  # fmt: skip
    return pen


def binary(position: int, bits: int) -> list[str]:
    """The digits, the lowest first."""
    return list(reversed(f"{position:0{bits}b}"))


def columns(left: float, bits: int) -> list[float]:
    """The middles of the columns of digits."""
    return [left + (i + 0.5) * min(DIGIT, 150 / bits) for i in range(bits)]


def headers(pen: Drawing, turns: list[float], dials: list[float], digits: list[float]) -> None:
    for i, (x, turn) in enumerate(zip(dials, turns, strict=True)):
        pen.text(x, 24, f"pair {i}", "title")
        pen.text(x, 42, f"{turn:.3g} rad", "small")
        pen.text(x, 57, "a step", "small")
    pen.text(digits[0] - 10, 24, "in binary,", "small start")
    pen.text(digits[0] - 10, 40, "lowest digit first", "small start")
    for i, x in enumerate(digits):
        pen.text(x, 60, str(2**i), "small")


def clock(pen: Drawing, x: float, y: float, angle: float) -> None:
    """Its hand is turned by the angle from the top, clockwise."""
    pen.circle(x, y, RADIUS, GREY, 0.1)
    pen.line([(x, y - RADIUS), (x, y - RADIUS + 4)], GREY)
    reach = RADIUS - 3
    pen.line([(x, y), (x + reach * math.sin(angle), y - reach * math.cos(angle))], BLUE, 2.5)
    pen.circle(x, y, 2.5, BLUE)


def slower(pen: Drawing, middles: list[float], y: float) -> None:
    """An arrow from the fast end to the slow one, if there is room for it."""
    left, right = middles[0], middles[-1]
    if right - left < 80:
        return
    pen.text(left, y + 4.5, "fast", "small")
    pen.arrow((left + 20, y), (right - 22, y), GREY)
    pen.text(right, y + 4.5, "slow", "small")


def words(positions: Sequence[int], turns: list[float], bits: int) -> str:
    """The whole picture, read row by row."""
    rows = (
        f"Position {p}: hands at {', '.join(f'{turn * p:.3g}' for turn in turns)} rad, "
        f"binary {' '.join(binary(p, bits))}."
        for p in positions
    )
    speeds = ", ".join(f"pair {i} by {turn:.3g}" for i, turn in enumerate(turns))
    return (
        "Positions as the hands of clocks, one for each pair of columns, from fast to slow, and "
        f"their binary digits, the lowest first. Hands turn clockwise from the top, at each step "
        f"{speeds} rad. {' '.join(rows)}"
    )
