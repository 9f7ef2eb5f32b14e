"""Chapter 3's exercises."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from unmasked.attention import attention

from .compare import same_number, same_tensor


def spread(answer: float) -> str | None:
    """The standard deviation of a product of 64 numbers of variance 9 with 64 of variance 1."""
    return same_number(answer, 24.0)


def attend(answer: Callable[[Tensor, Tensor, Tensor], Tensor]) -> str | None:
    """Attention for one head: [Q, d], [S, d], [S, e] → [Q, e]."""
    draws = torch.Generator().manual_seed(0)
    for queries, keys, width, value in ((2, 3, 4, 5), (1, 6, 64, 1)):
        shapes = ((queries, width), (keys, width), (keys, value))
        q, k, v = (torch.randn(shape, generator=draws) for shape in shapes)
        case = f"attend of shapes [{queries}, {width}], [{keys}, {width}], [{keys}, {value}]"
        if wrong := same_tensor(answer(q, k, v), attention(q, k, v), case):
            return wrong
    return None


def merge(answer: Callable[[Tensor], Tensor]) -> str | None:
    """[B, H, Q, K] → [B, Q, H · K], head after head."""
    heads = torch.arange(24.0).view(1, 2, 4, 3)
    expected = torch.cat([heads[:, 0], heads[:, 1]], dim=-1)
    return same_tensor(answer(heads), expected, "merge of shape [1, 2, 4, 3]")


CHECKS = (spread, attend, merge)
