"""Variations of one small model, as in the paper's table 3: heads, and kinds of positions.

All translate the phrasebook, with the same number of steps, batches and (but for a learned table
of positions) parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from unmasked.config import TransformerConfig
from unmasked.positions import LearnedPositions
from unmasked.training.recipe import Recipe
from unmasked.transformer import Transformer
from unmasked_book.experiments.learning import learn_texts
from unmasked_book.experiments.lstm import count_parameters
from unmasked_book.experiments.procedure import Experiment
from unmasked_book.experiments.texts import ANY, phrasebook

HEADS: Mapping[str, dict[str, Any]] = {
    f"{n} head{'s' * (n > 1)}": {"n_heads": n} for n in (1, 2, 4, 8, 16, 32)
}
SINUSOIDAL, LEARNED, SCALED = "sinusoidal", "learned", "learned, started at the sinusoids' scale"
NAMES = {  # as the page calls them
    SINUSOIDAL: "sinusoidal",
    LEARNED: "learned, small start",
    SCALED: "learned, larger start",
}
POSITIONS: Mapping[str, dict[str, Any]] = {
    SINUSOIDAL: {"positions": "sinusoidal"},
    LEARNED: {"positions": "learned"},
    SCALED: {"positions": "learned"},
}
PAIRS, STEPS = 7500, 400


def make(variation: str, words: int, seed: int, **sizes: Any) -> Transformer:
    """Two layers of width 64 with four heads, but for what varies."""
    change = {**HEADS, **POSITIONS}[variation]
    plain = {"d_model": 64, "n_heads": 4, "n_layers": 2, "d_ff": 256, "max_len": 64}
    options = {"dropout": 0.1, "norm": "pre", **plain, **change, **sizes}
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(source_vocab=words, target_vocab=words, **options))
    if variation == SCALED:
        start_at_the_scale_of_sinusoids(model)
    return model


def start_at_the_scale_of_sinusoids(model: Transformer) -> None:
    """Each table begins with a mean square of one half, as sines and cosines have it."""
    for part in model.modules():
        if isinstance(part, LearnedPositions):
            with torch.no_grad():
                part.table.mul_(0.5**0.5 / part.table.square().mean().sqrt())


def trial(*, variation: str, rate: float, seed: int, steps: int = STEPS) -> dict[str, Any]:
    texts = phrasebook(ANY, PAIRS, seed)
    model = make(variation, len(texts.vocabulary), seed)
    recipe = Recipe(steps=steps, rate=rate, warmup=max(1, steps // 5), tokens=640, smoothing=0.0,
                    seed=seed)  # fmt: skip
    return {"parameters": count_parameters(model), **learn_texts(model, texts, recipe)}


def experiment(variations: Mapping[str, Any]) -> Experiment:
    return Experiment(
        trial, [{"variation": name} for name in variations], {"rate": (0.002, 0.004, 0.008)}
    )
