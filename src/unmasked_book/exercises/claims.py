"""Chapter 15's exercise."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unmasked_book.exercises.compare import same_number, same_tensor


def without_division(answer: Callable[[Tensor, float, int], Any]) -> str | None:
    """Adam trains queries and keys to a goal: divided scores, and undivided ones as answered."""
    for width in (16, 64):
        draws = torch.Generator().manual_seed(width)
        drawn = torch.randn(3, 6, width, dtype=torch.float64, generator=draws)
        goal, starts = drawn[0] @ drawn[0].T / width, drawn[1:]
        case = f"undivided(start, 0.01, {width})"
        given = [answer(start.clone(), 0.01, width) for start in starts]
        if any(not isinstance(each, tuple) or len(each) != 2 for each in given):
            return f"not yet: {case} should be a start and a rate."
        for start, (own, _) in zip(starts, given, strict=True):
            if wrong := same_tensor(own, start / width**0.25, f"the start of {case}", 1e-6):
                return wrong
        expected = trained(goal, [*starts], 0.01, math.sqrt(width))
        got = trained(goal, [own for own, _ in given], float(given[0][1]), 1.0)
        if not torch.allclose(got, expected, atol=1e-3):
            wrong = same_number(given[0][1], 0.01 / width**0.25, 1e-6)
            return f"{wrong or 'not yet:'} With this rate of {case} the scores drift apart."
    return None


def trained(goal: Tensor, starts: list[Tensor], rate: float, divisor: float) -> Tensor:
    """The scores of six tokens, each with a query and a key of its own, after 30 steps of Adam."""
    query, key = (start.clone().requires_grad_() for start in starts)
    optimizer = torch.optim.Adam([query, key], lr=rate)
    for _ in range(30):
        optimizer.zero_grad()
        (query @ key.T / divisor - goal).square().mean().backward()
        optimizer.step()
    return (query @ key.T / divisor).detach()


CHECKS = (without_division,)
