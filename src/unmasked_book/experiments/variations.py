"""Variations of one small model, as in the paper's table 3: heads, and kinds of positions.

All translate the phrasebook, with the same number of steps, batches and (but for a learned table
of positions) parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from unmasked.config import TransformerConfig
from unmasked.training.recipe import Recipe
from unmasked.transformer import Transformer

from .learning import ANY, Sentences, learn, score, share_exact
from .lstm import count_parameters

HEADS: Mapping[str, dict[str, Any]] = {
    f"{n} head{'s' * (n > 1)}": {"n_heads": n} for n in (1, 2, 4, 8, 16, 32)
}
POSITIONS: Mapping[str, dict[str, Any]] = {
    "sinusoidal": {"positions": "sinusoidal"},
    "learned": {"positions": "learned"},
}
PAIRS = 8000


def trial(
    change: Mapping[str, Any], sentences: Sentences, seed: int, *, steps: int, rate: float
) -> dict[str, float]:
    model = make(change, sentences, seed)
    recipe = Recipe(steps=steps, rate=rate, warmup=max(1, steps // 5), tokens=640, smoothing=0.0,
                    seed=seed)  # fmt: skip
    learn(model, sentences.training(PAIRS, seed), recipe)
    cross_entropy, right = score(model, sentences.test)
    exact = share_exact(model, sentences.test)
    return {"surprise": cross_entropy, "right": right, "exact": exact}


def make(change: Mapping[str, Any], sentences: Sentences, seed: int) -> Transformer:
    """Two layers of width 64 with four heads, but for what changes."""
    sizes: dict[str, Any] = {"d_model": 64, "n_heads": 4, "n_layers": 2, "d_ff": 256, "max_len": 64}
    words = {"source_vocab": len(sentences.source), "target_vocab": len(sentences.target)}
    torch.manual_seed(seed)
    return Transformer(
        TransformerConfig(**{**words, **sizes, "dropout": 0.1, "norm": "pre", **change})
    )


def measure(
    variations: Mapping[str, Mapping[str, Any]],
    seeds: int = 5,
    steps: int = 400,
    rate: float = 5e-3,
) -> Iterator[dict[str, Any]]:
    """A row for each variation."""
    sentences = Sentences(ANY, PAIRS)
    for name, change in variations.items():
        options: dict[str, Any] = {"steps": steps, "rate": rate}
        results = [trial(change, sentences, seed, **options) for seed in range(seeds)]
        parameters = count_parameters(make(change, sentences, 0))
        yield {"variation": name, "parameters": parameters, **options, "trials": results}
