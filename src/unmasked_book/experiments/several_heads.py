"""Heads, as in the paper's table 3, rows A: from 1 to 32 of them, at the same whole width.

All translate the phrasebook, with the same number of steps, batches and parameters.
"""

from typing import Any

import torch

from unmasked.config import TransformerConfig
from unmasked.training.recipe import Recipe
from unmasked.transformer import Transformer
from unmasked_book.experiments.learning import learn_texts
from unmasked_book.experiments.procedure import Experiment
from unmasked_book.experiments.texts import phrasebook

HEADS = {f"{n} head{'s' * (n > 1)}": n for n in (1, 2, 4, 8, 16, 32)}
PAIRS, STEPS = 7500, 400


def make(variation: str, words: int, seed: int) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(
        source_vocab=words, target_vocab=words, d_model=64, n_heads=HEADS[variation], n_layers=2,
        d_ff=256, max_len=64, dropout=0.1, norm="pre"))  # fmt: skip


def trial(*, variation: str, rate: float, seed: int, steps: int = STEPS) -> dict[str, Any]:
    texts = phrasebook(PAIRS, seed)
    model = make(variation, len(texts.vocabulary), seed)
    recipe = Recipe(steps=steps, rate=rate, warmup=max(1, steps // 5), tokens=640, smoothing=0.0,
                    seed=seed)  # fmt: skip
    return {"parameters": model.count_parameters(), **learn_texts(model, texts, recipe)}


EXPERIMENT = Experiment(
    trial, [{"variation": name} for name in HEADS], {"rate": (0.002, 0.004, 0.008)}
)
