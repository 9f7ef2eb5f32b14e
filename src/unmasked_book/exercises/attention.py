"""Judges answers to the exercises of chapter 3; the others are steps of the workshop."""

import torch
from torch import Tensor

from unmasked_book.exercises.compare import function, number


def split(x: Tensor, n_heads: int) -> Tensor:
    """Splits vectors [B, T, D] into heads [B, H, T, d_k]."""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


VECTORS = torch.arange(48.0).view(2, 3, 8)
CHECKS = {  # a product of 64 numbers of variance 9 with 64 of variance 1 has variance 576
    "1": number(24.0),
    "2": function("split", split, (VECTORS, 4), dots=True),
}
