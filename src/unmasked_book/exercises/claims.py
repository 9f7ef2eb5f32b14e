"""Chapter 13's exercises."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from ..experiments.lstm import count_parameters
from ..experiments.statistics import difference
from .compare import same_number

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


CHECKS = (sure_gain, lstm_parameters, layers_until_all_is_seen)
