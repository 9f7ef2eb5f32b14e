"""Judges answers to the exercise of chapter 15."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from unmasked_book.exercises.compare import same_number, same_tensor


def without_division(answer: Callable[[Tensor, float, int], Any]) -> str | None:
    """Judges a function that must divide weights and learning rate by the width's fourth root."""
    for width in (16, 64):
        start, case = torch.randn(6, width), f"undivided(start, 0.01, {width})"
        got = answer(start.clone(), 0.01, width)
        if not isinstance(got, tuple) or len(got) != 2:
            return f"not yet: {case} should be a start and a rate."
        if wrong := same_tensor(got[0], start / width**0.25, f"the start of {case}"):
            return wrong
        if wrong := same_number(got[1], 0.01 / width**0.25, 1e-6):
            return f"{wrong} With this rate of {case} the scores drift apart."
    return None


CHECKS = {"1": without_division}
