"""Dropout whose random numbers cost little on a CPU.

`torch.nn.Dropout` draws one number for each element; on a CPU this takes longer than the layer
around it. Sixteen random bits an element are enough, and one 64-bit number holds four of them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import check_probability

LEVELS = 1 << 16  # what sixteen bits can tell apart


def keep_mask(x: Tensor, p: float) -> Tensor:
    """Like x: 0 with probability p, and 1 / (1 - p) otherwise, so that the mean stays 1."""
    dropped = min(round(p * LEVELS), LEVELS - 1)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device)
    bits = words.random_(-(1 << 63), None).view(torch.int16)[: x.numel()].view(x.shape)
    return (bits >= dropped - LEVELS // 2).to(x.dtype).mul_(LEVELS / (LEVELS - dropped))


def dropout(x: Tensor, p: float) -> Tensor:
    """Sets elements of x to 0 with probability p and scales up the others."""
    if p == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p)
    return x * keep_mask(x, p)


class Dropout(nn.Module):
    """`dropout` while training, nothing otherwise."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        check_probability("dropout", p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        return f"p={self.p}"
