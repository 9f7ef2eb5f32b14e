"""Judges answers to the exercises of chapter 2."""

import math
from typing import Any

import torch
from torch import Tensor

from unmasked.positions import frequencies, shift_matrix, sinusoids
from unmasked_book.exercises.compare import function, number, same_tensor
from unmasked_book.family import turned


def rotary(answer: Any) -> str | None:
    """Judges a reader's RoPE: pairs of columns of x [..., T, d_k] must turn with the position."""
    for shape, start in (((6, 8), 0), ((6, 8), 3), ((2, 3, 4, 8), 5), ((5, 2), 40)):
        x = torch.randn(shape)
        case = f"rotate(x, {start}) with x of shape {list(shape)}"
        if wrong := same_tensor(got := answer(x, start), rotated(x, start), case):
            if same_tensor(got, rotated(x, sign=-1), "") is None:
                return "not yet: it turns the other way; look at the signs of the two sines."
            if same_tensor(got, turned(x), "") is None:
                return "not yet: it pairs columns i and i + K/2, and asked for are 2i and 2i + 1."
            return wrong
    return None


def rotated(x: Tensor, start: int = 0, sign: int = 1) -> Tensor:
    """Returns x with neighbouring columns turned: as complex numbers, times e^(i ω p)."""
    places = torch.arange(start, start + x.shape[-2])[:, None]
    angles = sign * places * frequencies(x.shape[-1])
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2)


ROWS = ((sinusoids(5, 1, width)[0], by) for width, by in ((2, 2), (8, 1), (64, -7)))
CHECKS = {
    # The slowest wave of a model of width 512 repeats after this many positions.
    "1": number(2 * math.pi / float(frequencies(512)[-1]), 0.01),
    "2": function("turned", lambda row, by: shift_matrix(len(row), by) @ row, *ROWS),
    "+": rotary,
}
