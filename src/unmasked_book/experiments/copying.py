"""A long way to carry something: letters to be written down again in the order they were read.

The letters are random, so that nothing of the text helps to guess them. Three models of one size:
an LSTM that has to carry all letters in one state, the same with attention, and a Transformer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import torch
from torch import nn

from unmasked.config import BOS, EOS
from unmasked.data.corpus import Corpus
from unmasked.training.recipe import Recipe

from ..examples import FIRST_LETTER, LETTERS, speller
from .learning import learn, score
from .lstm import Recurrent, count_parameters, recurrent_of_size

MODELS = ("LSTM without attention", "LSTM with attention", "Transformer")
RATES = (3e-3, 1e-2)


def letters(count: int, length: int, seed: int) -> Corpus:
    """So many rows of `length` random letters, each its own translation."""
    draws = torch.Generator().manual_seed(seed)
    rows = torch.randint(FIRST_LETTER, LETTERS, (count, length), generator=draws).tolist()
    return Corpus([[*row, EOS] for row in rows], [[BOS, *row, EOS] for row in rows])


def make(kind: str, seed: int) -> nn.Module:
    """About 173,000 parameters each; the Transformer has two layers of width 64."""
    transformer = speller(seed=seed, n_layers=2, max_len=512)
    if kind == "Transformer":
        return transformer
    attends = kind == "LSTM with attention"
    width = recurrent_of_size(count_parameters(transformer), LETTERS, LETTERS, attends=attends)
    torch.manual_seed(seed)
    return Recurrent(LETTERS, LETTERS, width, attends=attends)


def trial(
    kind: str, length: int, seed: int, rate: float, *, steps: int, tokens: int
) -> dict[str, float]:
    """One training on rows of one length, measured on fresh rows of that length."""
    model = make(kind, seed)
    recipe = Recipe(steps=steps, rate=rate, warmup=max(1, steps // 10), tokens=tokens,
                    smoothing=0.0, seed=seed)  # fmt: skip
    learn(model, letters(steps * tokens // (length + 1), length, seed), recipe)
    cross_entropy, right = score(model, letters(200, length, seed + 10_000))
    return {"surprise": cross_entropy, "right": right}


def measure(
    lengths: Sequence[int] = (8, 24, 64), seeds: int = 5, steps: int = 600, tokens: int = 1300
) -> Iterator[dict[str, Any]]:
    """A row for each length and model; the better of two rates is found with a seed of its own."""
    for length, kind in product(lengths, MODELS):
        options = {"steps": steps, "tokens": tokens}
        rate = max(RATES, key=lambda r: trial(kind, length, 1000, r, **options)["right"])
        results = [trial(kind, length, seed, rate, **options) for seed in range(seeds)]
        yield {"letters": length, "model": kind, "parameters": count_parameters(make(kind, 0)),
               "rate": rate, **options, "trials": results}  # fmt: skip
