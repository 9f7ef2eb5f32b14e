"""Chapter 5's exercises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .compare import same_number, same_tensor


def last_place(answer: float) -> str | None:
    """The last number of the layer norm of 2, 4, 4, 6."""
    return same_number(answer, 2**0.5, tolerance=0.005)


def layer_norm(answer: Callable[[Tensor, float], Tensor]) -> str | None:
    """Mean 0 and variance 1 over the last dimension."""
    draws = torch.Generator().manual_seed(0)
    for shape, eps in (((4,), 1e-5), ((2, 3, 8), 0.5)):
        x = 3 + 2 * torch.randn(shape, generator=draws)
        expected = F.layer_norm(x, shape[-1:], eps=eps)
        if wrong := same_tensor(answer(x, eps), expected, f"layer_norm of shape {list(shape)}"):
            return wrong
    return None


def residual(answer: Callable[..., Tensor]) -> str | None:
    """norm(x + sublayer(x)), or x + sublayer(norm(x))."""
    x = torch.tensor([1.0, 2.0])
    functions: tuple[Any, Any] = (lambda x: 10 * x + 1, lambda x: x / 4)
    sublayer, norm = functions
    for pre, expected in ((False, norm(x + sublayer(x))), (True, x + sublayer(norm(x)))):
        if wrong := same_tensor(answer(x, sublayer, norm, pre), expected, f"with pre={pre}, it"):
            return wrong
    return None


CHECKS = (last_place, layer_norm, residual)
