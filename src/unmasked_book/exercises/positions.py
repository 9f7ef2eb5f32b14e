"""Chapter 2's exercises."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from unmasked.positions import frequencies, sinusoids
from unmasked_book.exercises.compare import number, same_form, same_tensor


def turned(answer: Callable[[Tensor, int], Tensor]) -> str | None:
    """The row of position p + shift from the row of position p alone, pair by pair."""
    for width, place, shift in ((2, 5, 2), (8, 3, 1), (64, 40, -7)):
        row, expected = sinusoids(place, 1, width)[0], sinusoids(place + shift, 1, width)[0]
        case = f"turned(row {place} of width {width}, {shift})"
        if wrong := same_tensor(answer(row, shift), expected, case):
            return wrong
    return None


Rotate = Callable[..., Tensor]


def rotary(answer: Rotate) -> str | None:
    """Rotary positions: the pairs of columns of x [..., T, K], turned by their row's angles."""
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(6, 8, generator=draws)
    if wrong := properties(answer, x):
        return wrong
    if wrong := same_tensor(answer(x), rotated(x), "rotate(x)"):
        return recognised(answer(x), x) or wrong
    for shape, start in (((6, 8), 3), ((2, 3, 4, 8), 5), ((5, 2), 40)):
        x = torch.randn(shape, generator=draws)
        case = f"rotate(x, {start}) with x of shape {list(shape)}"
        if wrong := same_tensor(answer(x, start), rotated(x, start), case):
            return wrong
    return None


def rotated(x: Tensor, start: int = 0, sign: int = 1) -> Tensor:
    """Each pair of neighbours as a complex number, times e^(i ω p)."""
    places = torch.arange(start, start + x.shape[-2])[:, None]
    angles = sign * places * frequencies(x.shape[-1])
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2)


def properties(answer: Rotate, x: Tensor) -> str | None:
    """The first property of a rotation that rotate(x) lacks."""
    got = answer(x)
    if wrong := same_form(got, x, "rotate(x)"):
        return wrong
    if wrong := same_tensor(got[0], x[0], "the row at position 0, which should stay as it is,"):
        return wrong
    lengths, before = got.norm(dim=-1), x.norm(dim=-1)
    if wrong := same_tensor(lengths, before, "rotate(x).norm(dim=-1), which should be x's,"):
        return wrong
    query, key = (answer(row.expand_as(x)) for row in x[:2])
    scores = query @ key.T  # of the same two vectors, at all pairs of positions
    case = "the dot product of the same two vectors, both one position later,"
    return same_tensor(scores[1:, 1:], scores[:-1, :-1], case)


def recognised(got: Tensor, x: Tensor) -> str | None:
    """Two other rotations, of which one is in use elsewhere."""
    if same_tensor(got, rotated(x, sign=-1), "") is None:
        return "not yet: it turns the other way; look at the signs of the two sines."
    halves = x.unflatten(-1, (2, -1)).transpose(-2, -1).flatten(-2)  # neighbours were half apart
    paired = rotated(halves).unflatten(-1, (-1, 2)).transpose(-2, -1).flatten(-2)
    if same_tensor(got, paired, "") is None:
        return "not yet: it pairs columns i and i + K/2, and asked for are 2i and 2i + 1."
    return None


# After so many positions the slowest wave of a model of width 512 begins again.
CHECKS = (number(2 * math.pi / float(frequencies(512)[-1]), 0.01), turned)
PLUS = {"+": rotary}
