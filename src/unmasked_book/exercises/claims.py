"""Chapter 15's exercises."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from unmasked_book.exercises.compare import same_number
from unmasked_book.experiments.lstm import count_parameters
from unmasked_book.experiments.statistics import difference

RUNS = (
    ([0.31, 0.28, 0.35, 0.30, 0.33], [0.22, 0.24, 0.25, 0.21, 0.26]),
    ([1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 1.0, 2.0, 3.0, 4.5]),
    ([0.9, 0.2, 0.4, 0.8, 0.1], [0.5, 0.6, 0.3, 0.9, 0.4]),
)


def sure_gain(answer: Callable[[Sequence[float], Sequence[float]], float]) -> str | None:
    """The lower end of the interval of the differences, seed by seed."""
    for a, b in RUNS:
        if wrong := same_number(answer(a, b), difference(a, b).low, 0.01):
            return f"{wrong} That was sure_gain({a}, {b})."
    return None


def lstm_parameters(answer: Callable[[int, int], int]) -> str | None:
    """Four gates, each with a matrix for the input, one for the state, and PyTorch's two biases."""
    for width, hidden in ((64, 64), (3, 5), (7, 2)):
        expected = count_parameters(nn.LSTM(width, hidden))
        if wrong := same_number(answer(width, hidden), expected, 1e-9):
            return f"{wrong} That was parameters({width}, {hidden})."
    return None


def layers_until_all_is_seen(answer: Callable[[int, int], int]) -> str | None:
    """Convolutions of width k, one on top of the other: each reaches k - 1 words further."""
    for words, kernel in ((10, 3), (2, 3), (5, 5), (101, 6), (1, 3)):
        x = torch.zeros(1, 1, 2 * words)
        x[0, 0, 0] = 1.0
        layers = 0
        while not x[0, 0, words - 1 :].any():
            x = nn.functional.conv1d(
                nn.functional.pad(x, (kernel - 1, 0)), torch.ones(1, 1, kernel)
            )
            layers += 1
        if wrong := same_number(answer(words, kernel), layers, 1e-9):
            return f"{wrong} That was layers({words}, {kernel})."
    return None


def crossed_bootstrap(answer: Callable[[torch.Tensor], Sequence[float]]) -> str | None:
    """Seeds and captions drawn anew; the interval is as wide as both together make it."""
    draws = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draws, dtype=torch.float64)

    for of_seeds, of_captions in ((0.0, 3.0), (3.0, 0.0), (1.0, 4.0)):
        less = 2 + of_seeds * normal(6, 1) + of_captions * normal(1, 40) + 0.2 * normal(6, 40)
        low, high = answer(less)
        seeds, captions = (
            torch.stack([torch.bincount(torch.randint(n, (n,), generator=draws), minlength=n)
                         for _ in range(5000)]).double() / n
            for n in less.shape
        )  # fmt: skip
        means = torch.einsum("ks,sc,kc->k", seeds, less, captions)
        expected = means.quantile(torch.tensor([0.025, 0.975], dtype=less.dtype)).tolist()
        width = expected[1] - expected[0]
        off = max(abs(low - expected[0]), abs(high - expected[1]))
        if off > 0.15 * width:
            return (
                f"not yet: {low:.2f} to {high:.2f}, and not about {expected[0]:.2f} to "
                f"{expected[1]:.2f}, where seeds spread by {of_seeds:g} and captions by "
                f"{of_captions:g}."
            )
    return None


CHECKS = (sure_gain, lstm_parameters, layers_until_all_is_seen)
PLUS = crossed_bootstrap
