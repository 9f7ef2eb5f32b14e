"""Checks for the book's exercises: `check_answer("masks 1", yours)` says whether it is right."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from unmasked.errors import check_choice

from . import (
    attention,
    bugs,
    claims,
    decoder,
    decoding,
    encoder,
    feed_forward,
    gpu,
    masks,
    positions,
    training,
    transformer,
    translating,
)

CHAPTERS = {
    "masks": masks,
    "positions": positions,
    "attention": attention,
    "feed_forward": feed_forward,
    "encoder": encoder,
    "decoder": decoder,
    "transformer": transformer,
    "training": training,
    "decoding": decoding,
    "translating": translating,
    "gpu": gpu,
    "claims": claims,
    "bugs": bugs,
}
CHECKS: Mapping[str, Callable[[Any], str | None]] = {
    f"{chapter} {number}": function
    for chapter, module in CHAPTERS.items()
    for number, function in enumerate(module.CHECKS, start=1)
}


class NoAnswerError(Exception):
    """The reader's function returned nothing yet."""


def check_answer(exercise: str, answer: Any) -> None:
    """Prints whether the answer to an exercise is right, and if not, a case in which it fails.

    `...` as the answer, or a function that returns nothing, is waiting for its reader.
    """
    check_choice("exercise", exercise, list(CHECKS))
    try:
        with torch.random.fork_rng(range(torch.cuda.device_count())):  # the reader's draws go on
            verdict = CHECKS[exercise](answering(answer)) or "right."
    except NoAnswerError:
        verdict = "your turn."
    except Exception as error:  # a reader's mistake is news for the reader, not a traceback
        verdict = f"not yet: it stops with {type(error).__name__}: {error}"
    print(f"Exercise {exercise}: {verdict}")


def answering(answer: Any) -> Any:
    """The answer, if there is one; a function that insists on returning something."""
    if answer is None or answer is ...:
        raise NoAnswerError
    if not callable(answer):
        return answer

    @functools.wraps(answer)
    def call(*args: Any) -> Any:
        return answering(answer(*args))

    return call
