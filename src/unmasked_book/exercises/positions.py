"""Chapter 2's exercises."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from unmasked.positions import frequencies, shift_matrix, sinusoids
from unmasked_book.exercises.compare import function, number, same_tensor


def rotary(answer: Callable[..., Tensor]) -> str | None:
    """Rotary positions: the pairs of columns of x [..., T, K], turned by their row's angles."""
    for shape, start in (((6, 8), 0), ((6, 8), 3), ((2, 3, 4, 8), 5), ((5, 2), 40)):
        x = torch.randn(shape)
        case = f"rotate(x, {start}) with x of shape {list(shape)}"
        if wrong := same_tensor(got := answer(x, start), rotated(x, start), case):
            return recognised(got, x) or wrong
    return None


def rotated(x: Tensor, start: int = 0, sign: int = 1) -> Tensor:
    """Each pair of neighbours as a complex number, times e^(i ω p)."""
    places = torch.arange(start, start + x.shape[-2])[:, None]
    angles = sign * places * frequencies(x.shape[-1])
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2)


def recognised(got: Tensor, x: Tensor) -> str | None:
    """Two other rotations, of which one is in use elsewhere."""
    if same_tensor(got, rotated(x, sign=-1), "") is None:
        return "not yet: it turns the other way; look at the signs of the two sines."
    halves = x.unflatten(-1, (2, -1)).transpose(-2, -1).flatten(-2)  # neighbours were half apart
    paired = rotated(halves).unflatten(-1, (-1, 2)).transpose(-2, -1).flatten(-2)
    if same_tensor(got, paired, "") is None:
        return "not yet: it pairs columns i and i + K/2, and asked for are 2i and 2i + 1."
    return None


ROWS = ((sinusoids(5, 1, width)[0], by) for width, by in ((2, 2), (8, 1), (64, -7)))
CHECKS = {
    # After so many positions the slowest wave of a model of width 512 begins again.
    "1": number(2 * math.pi / float(frequencies(512)[-1]), 0.01),
    "2": function("turned", lambda row, by: shift_matrix(len(row), by) @ row, *ROWS),
    "+": rotary,
}
