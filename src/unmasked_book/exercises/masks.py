"""Chapter 1's exercises."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from unmasked.masks import causal_mask, padding_mask

from .compare import same_number, same_tensor

TARGET = torch.tensor([[1, 8, 9, 10, 11], [1, 8, 12, 0, 0]])  # lengths 5 and 3, as in the chapter


def visible_pairs(answer: float) -> str | None:
    """How many pairs may attend in the decoder of a batch of lengths 5 and 3?"""
    mask = padding_mask(TARGET) & causal_mask(5)
    return same_number(answer, int(mask.sum()))


def window(answer: Callable[[int, int], Tensor]) -> str | None:
    """A causal mask [n, n] in which each position sees itself and the width - 1 before it."""
    for n, width in ((1, 1), (5, 1), (6, 3), (4, 9)):
        row, column = torch.arange(n)[:, None], torch.arange(n)
        expected = (column <= row) & (column > row - width)
        if wrong := same_tensor(answer(n, width), expected, f"window({n}, {width})"):
            return wrong
    return None


def for_multihead(answer: Callable[[Tensor, int], Tensor]) -> str | None:
    """Our mask [B, 1, Q, K] in nn.MultiheadAttention's words: [B · heads, Q, K], True hidden."""
    mask = padding_mask(TARGET) & causal_mask(5)
    expected = ~mask[:, 0].repeat_interleave(3, dim=0)
    return same_tensor(answer(mask, 3), expected, "for_multihead(mask, 3)")


CHECKS = (visible_pairs, window, for_multihead)
