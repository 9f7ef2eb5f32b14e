"""Chapter 4's exercises."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .compare import same_number, same_tensor


def parameters(answer: float) -> str | None:
    """Numbers in a feed-forward layer of width 512, inner width 2048, with biases."""
    return same_number(answer, 2_099_712)


def absolute(answer: Callable[[], tuple[Tensor, Tensor]]) -> str | None:
    """Matrices [1, 2] and [2, 1] with max(0, x W₁) W₂ = |x|."""
    first, second = answer()
    for name, weight, shape in (("W₁", first, (1, 2)), ("W₂", second, (2, 1))):
        if weight.shape != shape:
            return f"not yet: {name} has shape {list(weight.shape)}, not {list(shape)}."
    x = torch.tensor([[-3.0], [0.0], [0.5], [7.0]])
    return same_tensor((x @ first).relu() @ second, x.abs(), "the layer for -3, 0, 0.5 and 7")


def collapse(
    answer: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]],
) -> str | None:
    """Two linear layers as one: its weight [d, e] and bias [e]."""
    draws = torch.Generator().manual_seed(0)
    w1, b1, w2, b2 = (torch.randn(s, generator=draws) for s in ((3, 5), (5,), (5, 2), (2,)))
    weight, bias = answer(w1, b1, w2, b2)
    wrong = same_tensor(weight, w1 @ w2, "the weight")
    return wrong or same_tensor(bias, b1 @ w2 + b2, "the bias")


CHECKS = (parameters, absolute, collapse)
