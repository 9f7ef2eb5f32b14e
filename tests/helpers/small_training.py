"""Makes trainings whose steps take milliseconds, to repeat, kill, resume and share out."""

import random
from contextlib import AbstractContextManager
from unittest import mock

import torch

from unmasked import Transformer, TransformerConfig
from unmasked.text.corpus import Corpus
from unmasked.tokens import BOS, EOS
from unmasked.training.history import History
from unmasked.training.recipe import Recipe
from unmasked.training.trainer import Trainer, train

WORDS = 20
RECIPE = Recipe(steps=12, tokens=60, rate=5e-3, warmup=4, average=0.9)


def small_corpus(count: int = 40, longest: int = 8) -> Corpus:
    """Draws random sentences whose translations are the sentences themselves."""
    draw = random.Random(count)
    lengths = (draw.randint(1, longest) for _ in range(count))  # drawn one by one, between words
    words = [[draw.randrange(3, WORDS) for _ in range(length)] for length in lengths]
    return Corpus([[*w, EOS] for w in words], [[BOS, *w, EOS] for w in words])


def small(dropout: float = 0.1, **changes: object) -> Transformer:
    """Makes a model with the same weights in each call."""
    sizes = {"source_vocab": WORDS, "target_vocab": WORDS, "d_model": 8, "n_heads": 2, "d_ff": 12}
    config = {"n_layers": 1, "norm": "pre", "tie_embeddings": "output", "max_len": 16}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Transformer(TransformerConfig(**{**sizes, **config, **changes}, dropout=dropout))


def quiet(
    model: Transformer, recipe: Recipe = RECIPE, corpus: Corpus | None = None, **options: object
) -> History:
    """Calls `train` without a bar, on the CPU."""
    options = {"device": "cpu", "progress": False, "every": 1, **options}
    return train(model, small_corpus() if corpus is None else corpus, recipe, **options)


def stopping_at(step: int) -> AbstractContextManager:
    """Interrupts each training after this step, as Ctrl-C would."""
    advance = Trainer.advance

    def stopping(trainer: Trainer) -> None:
        if trainer.step == step:
            raise KeyboardInterrupt
        advance(trainer)

    return mock.patch.object(Trainer, "advance", stopping)
