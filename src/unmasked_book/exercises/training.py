"""Chapter 8's exercises."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from .compare import same_number, same_tensor


def highest_rate(answer: float) -> str | None:
    """The paper's rate at the end of its warm-up."""
    return same_number(answer, (512 * 4000) ** -0.5, 0.02)


def rate(answer: Callable[[int, int, int], float]) -> str | None:
    """Equation 3: a line, then the root."""
    for step, d, warmup in ((1, 512, 4000), (4000, 512, 4000), (9000, 64, 100)):
        expected = d**-0.5 * min(step**-0.5, step * warmup**-1.5)
        if wrong := same_number(answer(step, d, warmup), expected, 1e-6):
            return f"{wrong} (rate{(step, d, warmup)})"
    return None


def loss(answer: Callable[[Tensor, Tensor], Tensor]) -> str | None:
    """Padding is neither in the sum nor in the count."""
    torch.manual_seed(0)
    logits, labels = torch.randn(3, 4, 7), torch.tensor([[3, 4, 5, 2], [6, 2, 0, 0], [2, 0, 0, 0]])
    expected = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0)
    got = answer(logits, labels)
    return same_tensor(torch.as_tensor(got), expected, "loss(logits, labels)")


CHECKS = (highest_rate, rate, loss)
