"""Checks for the book's exercises: `check_answer("masks 1", yours)` says whether it is right."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from unmasked.errors import check_choice
from unmasked_book.exercises.answering import verdict

CHAPTERS = (
    "masks", "positions", "attention", "feed_forward", "encoder", "decoder", "transformer",
    "training", "decoding", "translating", "better", "inside", "speed", "family", "claims",
    "testing",
)  # fmt: skip
MODULES = {chapter: import_module(f"{__name__}.{chapter}") for chapter in CHAPTERS}
CHECKS: dict[str, Callable[[Any], str | None]] = {
    f"{chapter} {number}": function
    for chapter, module in MODULES.items()
    for number, function in enumerate(module.CHECKS, start=1)
} | {
    f"{chapter} {plus}": function
    for chapter, module in MODULES.items()
    for plus, function in getattr(module, "PLUS", {}).items()
}


def check_answer(exercise: str, answer: Any) -> None:
    """Prints whether the answer to an exercise is right, and if not, a case in which it fails.

    `...` as the answer, or a function that returns nothing, is waiting for its reader.
    """
    check_choice("exercise", exercise, list(CHECKS))
    with torch.random.fork_rng(range(torch.cuda.device_count())):  # the reader's draws go on
        print(f"Exercise {exercise}: {verdict(CHECKS[exercise], answer)}")
