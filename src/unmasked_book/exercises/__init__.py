"""Checks for the book's exercises: `check_answer("masks 1", yours)` says whether it is right."""

from importlib import import_module
from typing import Any

import torch

from unmasked.errors import require_choice
from unmasked_book.exercises.compare import Check, verdict

CHAPTERS = (
    "masks", "positions", "attention", "feed_forward", "encoder", "decoder", "transformer",
    "training", "decoding", "translating", "better", "inside", "speed", "family", "claims",
    "testing",
)  # fmt: skip
CHECKS: dict[str, Check] = {
    f"{chapter} {number}": check
    for chapter in CHAPTERS
    for number, check in import_module(f"{__name__}.{chapter}").CHECKS.items()
}


def check_answer(exercise: str, answer: Any) -> None:
    """Prints whether the answer to an exercise is right, and if not, a case in which it fails.

    `...` as the answer, or a function that returns nothing, is waiting for its reader.
    """
    require_choice("exercise", exercise, list(CHECKS))
    with torch.random.fork_rng(range(torch.cuda.device_count())):  # the reader's draws go on
        torch.manual_seed(0)
        print(f"Exercise {exercise}: {verdict(CHECKS[exercise], answer)}")
