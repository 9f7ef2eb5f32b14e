"""Chapter 12's exercises."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..machines import rounded
from .compare import same_number, same_tensor


def share(answer: float) -> str | None:
    """Of eight P100: six operations for each of 63 million parameters and 25,000 words."""
    return same_number(answer, 6 * 63e6 * 25_000 / 0.4 / (8 * 9.5e12), 0.03)


def whole_gradient(answer: Callable[[list[Tensor], list[int]], Tensor]) -> str | None:
    """A mean of means, weighted with what each is a mean of."""
    torch.manual_seed(0)
    for counts in ([4, 4], [30, 2], [1, 2, 5]):
        of_words = torch.randn(sum(counts), 3)
        means = [part.mean(0) for part in torch.split(of_words, counts)]
        got = answer(means, counts)
        if wrong := same_tensor(got, of_words.mean(0), f"with {counts}, whole_gradient(...)"):
            return wrong
    return None


def fewer_bits(answer: Callable[[Tensor, int], Tensor]) -> str | None:
    """With 7 bits bfloat16's numbers, with 10 TF32's."""
    torch.manual_seed(0)
    x = torch.cat(
        [torch.randn(20) * 10.0 ** torch.randint(-8, 9, (20,)), torch.tensor([1.0, -3.0])]
    )
    for fraction in (7, 10, 3):
        got = answer(x, fraction)
        expected = rounded(x, fraction)
        if isinstance(got, Tensor) and got.shape == x.shape:
            got, expected = got / x, expected / x  # small numbers count as much as large ones
        if wrong := same_tensor(got, expected, f"shorten(x, {fraction}), divided by x,"):
            return wrong
    return None


CHECKS = (share, whole_gradient, fewer_bits)
