"""Norm before or after the sum, with warm-up and without: which rates can be trained with?

Four layers, random words to be spelled backwards, the same steps and batches for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from unmasked.training.recipe import Recipe

from ..examples import speller
from .learning import learn, score, spelling_corpus

NORMS = ("post", "pre")
RATES = (1e-3, 3e-3, 1e-2)
WARM_UPS = (1, 100)  # steps; one is none


def trial(
    norm: str, warmup: int, rate: float, seed: int, *, layers: int, steps: int
) -> dict[str, float]:
    model = speller(seed=seed, n_layers=layers, norm=norm)
    recipe = Recipe(steps=steps, rate=rate, warmup=warmup, tokens=640, smoothing=0.0, seed=seed)
    learn(model, spelling_corpus(20 * steps, seed=seed), recipe)
    cross_entropy, right = score(model, spelling_corpus(500, seed=seed + 10_000))
    return {"surprise": cross_entropy, "right": right}


def measure(
    seeds: int = 5,
    steps: int = 300,
    layers: int = 4,
    rates: Sequence[float] = RATES,
    warmups: Sequence[int] = WARM_UPS,
) -> Iterator[dict[str, Any]]:
    """A row for each norm, warm-up and highest rate."""
    for norm, warmup, rate in product(NORMS, warmups, rates):
        options = {"layers": layers, "steps": steps}
        results = [trial(norm, warmup, rate, seed, **options) for seed in range(seeds)]
        yield {"norm": norm, "warmup": warmup, "rate": rate, **options, "trials": results}
