"""Longer words than any in training: what do computed positions do there, and learned ones?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unmasked.training.recipe import Recipe
from unmasked_book.examples import speller
from unmasked_book.experiments.learning import learn, score, share_exact, spelling_corpus
from unmasked_book.experiments.procedure import Experiment
from unmasked_book.experiments.variations import (
    LEARNED,
    POSITIONS,
    SCALED,
    SINUSOIDAL,
    start_at_the_scale_of_sinusoids,
)

KINDS = (SINUSOIDAL, LEARNED, SCALED)
TRAINED = (3, 9)  # letters
LENGTHS = tuple(range(3, 13))
STEPS = 800
MEASURED = 300  # words of each length


def trial(
    *, positions: str, rate: float, seed: int, steps: int = STEPS, lengths: Sequence[int] = LENGTHS
) -> dict[str, Any]:
    """The share of words spelled backwards without a mistake, for each length."""
    model = speller(seed=seed, **POSITIONS[positions])
    if positions == SCALED:
        start_at_the_scale_of_sinusoids(model)
    recipe = Recipe(steps=steps, rate=rate, warmup=max(1, steps // 5), tokens=640, smoothing=0.0,
                    seed=seed)  # fmt: skip
    learn(model, spelling_corpus(20 * steps, *TRAINED, seed=seed), recipe)
    fresh = [spelling_corpus(MEASURED, n, n, seed=seed + 10_000) for n in lengths]
    validation = score(model, spelling_corpus(500, *TRAINED, seed=seed + 20_000)).cross_entropy
    return {"validation": validation, "exact": [share_exact(model, corpus) for corpus in fresh]}


EXPERIMENT = Experiment(
    trial, [{"positions": kind} for kind in KINDS], {"rate": (0.002, 0.004, 0.008)}
)
