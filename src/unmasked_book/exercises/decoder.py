"""Chapter 6's exercises."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from unmasked.masks import causal_mask

from .compare import same_number, same_tensor


def remembered(answer: float) -> str | None:
    """Keys and values of 6 layers, 8 heads of width 64, 1,000 words."""
    return same_number(answer, 6_144_000)


def teacher(answer: Callable[[Tensor], tuple[Tensor, Tensor]]) -> str | None:
    """What is read and what is asked for: [B, T + 1] → twice [B, T]."""
    target = torch.tensor([[1, 3, 4, 2], [1, 5, 2, 0]])
    inputs, labels = answer(target)
    wrong = same_tensor(inputs, target[:, :-1], "what the decoder reads")
    return wrong or same_tensor(labels, target[:, 1:], "what it is asked for")


def step_mask(answer: Callable[[int, int], Tensor]) -> str | None:
    """A causal mask [n, past + n] for n new words after `past` old ones."""
    for past, n in ((0, 3), (4, 1), (2, 3)):
        case = f"step_mask({past}, {n})"
        if wrong := same_tensor(answer(past, n), causal_mask(n, past=past), case):
            return wrong
    return None


CHECKS = (remembered, teacher, step_mask)
