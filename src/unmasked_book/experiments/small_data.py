"""Little data, short sentences: does a recurrent model come off better than the Transformer?

All have as many parameters, see the same batches of phrasebook sentences, and choose their rates
and dropouts in the same way. What is reported is the model of the step that was best on sentences
kept for that choice, measured on others again. `LONGER` is a control, with twice the updates.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import torch
from torch import nn

from unmasked.config import TransformerConfig
from unmasked.training.recipe import Recipe
from unmasked.transformer import Transformer
from unmasked_book.experiments.learning import learn_texts
from unmasked_book.experiments.lstm import count_parameters, recurrent_like
from unmasked_book.experiments.procedure import Experiment
from unmasked_book.experiments.texts import LONG, SHORT, phrasebook
from unmasked_book.records import recorded

LSTMS: dict[str, dict[str, Any]] = {
    "LSTM": {"n_layers": 1},
    "LSTM, two layers, input feeding": {"n_layers": 2, "feeds": True},
}
PARTS: dict[str, dict[str, Any]] = {
    "LSTM, input feeding": {"feeds": True},
    "LSTM, two layers": {"n_layers": 2},
}  # each has one half of what tells the second LSTM from the first
MODELS = (*LSTMS, "Transformer")
LENGTHS = (SHORT, LONG)
SIZES = (300, 7500)
STEPS = 400
LADDERS = {"rate": (0.002, 0.004, 0.008), "dropout": (0.1, 0.2, 0.3)}


def make(kind: str, words: int, dropout: float, seed: int, **changes: Any) -> nn.Module:
    """A Transformer of two layers and width 64, or an LSTM with attention of the same size."""
    sizes = {"d_model": 64, "n_heads": 4, "n_layers": 2, "d_ff": 256}
    options: dict[str, Any] = {**sizes, "dropout": dropout, "norm": "pre", **changes}
    torch.manual_seed(seed)
    transformer = Transformer(TransformerConfig(source_vocab=words, target_vocab=words, **options))
    if kind == "Transformer":
        return transformer
    return recurrent_like(transformer, words, seed, dropout=dropout, **{**LSTMS, **PARTS}[kind])


def trial(
    *,
    sentences: str,
    pairs: int,
    model: str,
    rate: float,
    dropout: float,
    seed: int,
    steps: int = STEPS,
) -> dict[str, Any]:
    """One training, measured at its best moment."""
    texts = phrasebook(sentences, pairs, seed)
    made = make(model, len(texts.vocabulary), dropout, seed)
    recipe = Recipe(
        steps=steps, rate=rate, warmup=max(1, steps // 10), tokens=640, smoothing=0.0, seed=seed
    )
    return {"parameters": count_parameters(made), **learn_texts(made, texts, recipe)}


EXPERIMENT = Experiment(
    trial,
    [{"sentences": length, "pairs": size, "model": model}
     for length, size, model in product(LENGTHS, SIZES, MODELS)],
    LADDERS,
)  # fmt: skip
RIVAL = Experiment(
    trial, [{"sentences": SHORT, "pairs": SIZES[1], "model": model} for model in PARTS], LADDERS
)

CHOSEN = ("sentences", "pairs", "model", "rate", "dropout")
LONGER = Experiment(
    partial(trial, steps=2 * STEPS),
    [
        {name: each[name] for name in CHOSEN}
        for each in recorded("claim-small-data")["rows"]
        if each["pairs"] == SIZES[0]
    ],
    {},
)
