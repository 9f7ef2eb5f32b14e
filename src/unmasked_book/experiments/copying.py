"""A long way to carry something: letters to be written down again in the order they were read.

The letters are random, so that nothing of the text helps to guess them. All models have one size:
an LSTM that has to carry all letters in one state, two with attention, and a Transformer.

A longer row is also more to remember. So there are rows of a few letters amid blanks, too: far to
carry them, and as little to remember as in a short one.
"""

from __future__ import annotations

from itertools import product
from typing import Any, cast

import torch
from torch import nn

from unmasked.text.corpus import Corpus
from unmasked.tokens import BOS, EOS
from unmasked.training.recipe import Recipe
from unmasked_book.examples import FIRST_LETTER, LETTERS, speller
from unmasked_book.experiments.learning import learn, score
from unmasked_book.experiments.lstm import (
    Recurrent,
    count_parameters,
    open_forget_gates,
    recurrent_like,
)
from unmasked_book.experiments.procedure import Experiment

LSTMS: dict[str, dict[str, Any]] = {
    "LSTM without attention": {"attends": False},
    "LSTM with attention": {},
    "LSTM, two layers, input feeding": {"n_layers": 2, "feeds": True},
}
MODELS = (*LSTMS, "Transformer")
LENGTHS = (8, 64)
STEPS, TOKENS = 600, 1300
RATES = (0.002, 0.004, 0.008)
MEASURED = 200  # rows
BLANKS = (LENGTHS[1] - LENGTHS[0]) // 2  # on either side of a short row, to make it a long one
FAR = LENGTHS[1] - LENGTHS[0]  # on either side, for a letter to be as far away as in a long row


def letters(count: int, length: int, seed: int, blanks: int = 0) -> Corpus:
    """So many rows of `length` random letters, to be copied; with blanks on either side of them.

    The blank is a token that no source has otherwise.
    """
    draws = torch.Generator().manual_seed(seed)
    rows = torch.randint(FIRST_LETTER, LETTERS, (count, length), generator=draws).tolist()
    around = [BOS] * blanks
    return Corpus([[*around, *row, *around, EOS] for row in rows],
                  [[BOS, *row, EOS] for row in rows])  # fmt: skip


def make(kind: str, seed: int, **options: Any) -> nn.Module:
    """About 173,000 parameters each; the Transformer has two layers of width 64."""
    transformer = speller(seed=seed, n_layers=2, max_len=512)
    if kind == "Transformer":
        return transformer
    return recurrent_like(transformer, LETTERS, seed, **LSTMS[kind], **options)


def trial(
    *, letters_a_row: int, model: str, rate: float, seed: int, blanks: int = 0,
    forget: float | None = None, places: bool = False, steps: int = STEPS, tokens: int = TOKENS,
) -> dict[str, Any]:  # fmt: skip
    """One training on rows of one length, measured on fresh rows of that length.

    `forget` is the bias with which an LSTM's forget gates start, instead of PyTorch's; with
    `places` it is told the positions as the Transformer is.
    """
    made = make(model, seed, places=True) if places else make(model, seed)
    if forget is not None:
        open_forget_gates(cast(Recurrent, made), forget)
    recipe = Recipe(steps=steps, rate=rate, warmup=max(1, steps // 10), tokens=tokens,
                    smoothing=0.0, seed=seed)  # fmt: skip
    count = steps * tokens // (letters_a_row + 2 * blanks + 1)
    learn(made, letters(count, letters_a_row, seed, blanks), recipe)
    nats, right = score(made, letters(MEASURED, letters_a_row, seed + 10_000, blanks))
    validation = score(made, letters(MEASURED, letters_a_row, seed + 20_000, blanks)).cross_entropy
    return {"parameters": count_parameters(made), "validation": validation, "nats": nats,
            "right": right}  # fmt: skip


EXPERIMENT = Experiment(
    trial,
    [{"letters_a_row": length, "model": model} for length, model in product(LENGTHS, MODELS)],
    {"rate": RATES},
)
ROWS = TOKENS // (LENGTHS[1] + 1)  # in a step, with blanks and without


def tokens_a_step(blanks: int) -> int:
    """For so many rows: a batch is measured by its longer side, and a target has BOS and EOS."""
    return ROWS * max(LENGTHS[0] + 2 * blanks + 1, LENGTHS[0] + 2)


def amid(*blanks: int) -> Experiment:
    cases = [{"letters_a_row": LENGTHS[0], "blanks": n, "model": model, "tokens": tokens_a_step(n)}
             for n, model in product(blanks, MODELS)]  # fmt: skip
    return Experiment(trial, cases, {"rate": RATES})


DISTANCE, FARTHER = amid(0, BLANKS), amid(FAR)
GATES = (0.0, 1.0, 2.0)
FORGET_GATE = Experiment(
    trial,
    [{"letters_a_row": LENGTHS[1], "model": model} for model in LSTMS],
    {"rate": RATES, "forget": GATES},
)
BLANK_GATE = Experiment(
    trial,
    [case for each in (DISTANCE, FARTHER) for case in each.cases
     if case["model"] == "LSTM without attention" and case["blanks"]],
    {"rate": RATES, "forget": GATES},
)  # fmt: skip
PLACES = Experiment(
    trial,
    [{"letters_a_row": LENGTHS[1], "model": model, "places": True}
     for model, options in LSTMS.items() if options.get("attends", True)],
    {"rate": RATES},
)  # fmt: skip
