"""Little data, short sentences: does the LSTM come off better than the Transformer?

Both have as many parameters, see the same batches of phrasebook sentences, and may choose among
the same rates and dropouts. What is reported is the model of the step that was best on sentences
kept for that choice, measured on others again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import torch
from torch import nn

from unmasked.config import TransformerConfig
from unmasked.training.recipe import Recipe
from unmasked.transformer import Transformer

from .learning import LONG, SHORT, Sentences, learn, score, share_exact
from .lstm import Recurrent, count_parameters, recurrent_of_size

LENGTHS = (SHORT, LONG)
CHOICES = {"rate": (3e-3, 1e-2), "dropout": (0.1, 0.3)}
MODELS = ("LSTM", "Transformer")


def make(kind: str, sentences: Sentences, dropout: float, seed: int) -> nn.Module:
    """A Transformer of two layers and width 64, or an LSTM with attention of the same size."""
    sizes: dict[str, Any] = {
        "source_vocab": len(sentences.source),
        "target_vocab": len(sentences.target),
    }
    torch.manual_seed(seed)
    config = TransformerConfig(**sizes, d_model=64, n_heads=4, n_layers=2, d_ff=256,
                               dropout=dropout, norm="pre")  # fmt: skip
    transformer = Transformer(config)
    if kind == "Transformer":
        return transformer
    torch.manual_seed(seed)
    width = recurrent_of_size(count_parameters(transformer), **sizes)
    return Recurrent(**sizes, d_model=width, dropout=dropout)


def trial(
    kind: str,
    sentences: Sentences,
    size: int,
    seed: int,
    *,
    rate: float,
    dropout: float,
    steps: int,
) -> dict[str, float]:
    """One training, measured at its best moment."""
    model = make(kind, sentences, dropout, seed)
    best, kept = [float("inf")], {}

    def watch() -> float:
        cross_entropy = score(model, sentences.validation).cross_entropy
        if cross_entropy < best[0]:
            best[0] = cross_entropy
            kept.update(copy.deepcopy(model.state_dict()))
        return cross_entropy

    recipe = Recipe(
        steps=steps, rate=rate, warmup=max(1, steps // 10), tokens=640, smoothing=0.0, seed=seed
    )
    every = max(1, steps // 12)
    seen = learn(model, sentences.training(size, seed), recipe, watch=watch, every=every)
    model.load_state_dict(kept)
    cross_entropy, right = score(model, sentences.test)
    return {"validation": best[0], "surprise": cross_entropy, "right": right,
            "exact": share_exact(model, sentences.test),
            "step": min(steps, every * (seen.index(best[0]) + 1))}  # fmt: skip


def choose(kind: str, sentences: Sentences, size: int, steps: int) -> dict[str, float]:
    """The rate and dropout that suit a model and an amount of data, by a seed of their own."""
    choices = [dict(zip(CHOICES, values, strict=True)) for values in product(*CHOICES.values())]
    return min(choices, key=lambda options: trial(
        kind, sentences, size, 1000, steps=steps, **options)["validation"])  # fmt: skip


def measure(
    sizes: Sequence[int] = (300, 1500, 7500), seeds: int = 5, steps: int = 800
) -> Iterator[dict[str, Any]]:
    """A row for each length, amount of data, model: the options chosen, and a result a seed."""
    for length in LENGTHS:
        sentences = Sentences(length, max(sizes))
        for size, kind in product(sizes, MODELS):
            options = choose(kind, sentences, size, steps)
            results = [
                trial(kind, sentences, size, s, steps=steps, **options) for s in range(seeds)
            ]
            parameters = count_parameters(make(kind, sentences, 0.0, 0))
            yield {"sentences": length, "pairs": size, "model": kind, "parameters": parameters,
                   "steps": steps, **options, "trials": results}  # fmt: skip
