"""Floating-point formats: how fine their steps are, and how far they reach."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .validation import check_at_least


class Format(NamedTuple):
    """A sign, then so many bits for the power of two, then so many for what follows "1."."""

    exponent: int
    fraction: int

    @property
    def step(self) -> float:
        """From 1 to the next number above it."""
        return math.ldexp(1.0, -self.fraction)

    @property
    def largest(self) -> float:
        return (2 - self.step) * math.ldexp(1.0, 2 ** (self.exponent - 1) - 1)

    @property
    def smallest(self) -> float:
        """The lowest number above 0 with a leading 1; nearer to 0, digits are lost one by one."""
        return math.ldexp(1.0, 2 - 2 ** (self.exponent - 1))


FORMATS = {
    "float32": Format(8, 23),
    "TF32": Format(8, 10),  # in the units of a GPU only: in memory it is a float32
    "bfloat16": Format(8, 7),
    "float16": Format(5, 10),
}


def rounded(x: Tensor, fraction: int) -> Tensor:
    """To the nearest number with so many bits after its leading 1; x keeps its type and range."""
    check_at_least("fraction", fraction, 0)
    mantissa, exponent = torch.frexp(x.double())  # mantissa · 2^exponent, from ½ up to 1
    scale = 2.0 ** (fraction + 1)
    return torch.ldexp((mantissa * scale).round() / scale, exponent).to(x.dtype)
