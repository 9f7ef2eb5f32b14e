"""Longer words than any in training: what do computed positions do there, and learned ones?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from unmasked.training.recipe import Recipe

from ..examples import speller
from .learning import learn, share_exact, spelling_corpus

KINDS = ("sinusoidal", "learned")
TRAINED = (3, 9)  # letters


def trial(kind: str, lengths: Sequence[int], seed: int, *, steps: int, rate: float) -> list[float]:
    """The share of words spelled backwards without a mistake, for each length."""
    model = speller(seed=seed, positions=kind)
    recipe = Recipe(steps=steps, rate=rate, warmup=max(1, steps // 5), tokens=640, smoothing=0.0,
                    seed=seed)  # fmt: skip
    learn(model, spelling_corpus(20 * steps, *TRAINED, seed=seed), recipe)
    fresh = [spelling_corpus(300, n, n, seed=seed + 10_000) for n in lengths]
    return [share_exact(model, corpus) for corpus in fresh]


def measure(
    lengths: Sequence[int] = tuple(range(3, 13)), seeds: int = 5, steps: int = 800
) -> Iterator[dict[str, Any]]:
    """A row for each kind of positions: a list a seed, with a value a length."""
    for kind in KINDS:
        options: dict[str, Any] = {"steps": steps, "rate": 5e-3}
        results = [trial(kind, lengths, seed, **options) for seed in range(seeds)]
        yield {"positions": kind, "lengths": list(lengths), **options, "trials": results}
