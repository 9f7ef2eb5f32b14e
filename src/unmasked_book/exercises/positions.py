"""Chapter 2's exercises."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from unmasked.positions import frequencies, sinusoids

from .compare import same_number, same_tensor


def longest_wave(answer: float) -> str | None:
    """After how many positions does the slowest wave of a model of width 512 begin again?"""
    return same_number(answer, 2 * math.pi / float(frequencies(512)[-1]), tolerance=0.01)


def turned(answer: Callable[[Tensor, int], Tensor]) -> str | None:
    """The row of position p + shift from the row of position p alone, pair by pair."""
    for width, place, shift in ((2, 5, 2), (8, 3, 1), (64, 40, -7)):
        row, expected = sinusoids(place, 1, width)[0], sinusoids(place + shift, 1, width)[0]
        case = f"turned(row {place} of width {width}, {shift})"
        if wrong := same_tensor(answer(row, shift), expected, case):
            return wrong
    return None


def lookalike(answer: Callable[[int, int], int]) -> str | None:
    """Which of the positions 1 … n - 1 has the encoding nearest to that of position 0?"""
    for width, n in ((2, 10), (2, 50), (4, 1000), (16, 1000)):
        table = sinusoids(0, n, width)
        expected = 1 + int((table[1:] - table[0]).norm(dim=1).argmin())
        got = answer(width, n)
        if same_number(got, expected):
            return f"not yet: for width {width} and n = {n} it says {got}."
    return None


CHECKS = (longest_wave, turned, lookalike)
