"""Judges answers to the book's exercises: `check_answer("masks 1", yours)` prints the result."""

from importlib import import_module
from typing import Any

import torch

from unmasked.errors import require_choice
from unmasked_book.exercises.compare import Check, NoAnswerError, answering

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

    An answer `...`, or a function that returns nothing, counts as not yet given.
    """
    require_choice("exercise", exercise, list(CHECKS))
    with torch.random.fork_rng(range(torch.cuda.device_count())):  # leaves the reader's draws alone
        torch.manual_seed(0)
        try:
            said = CHECKS[exercise](answering(answer)) or "right."
        except NoAnswerError:
            said = "your turn."
        except Exception as error:  # the reader wants to know, but not to see a traceback
            said = f"not yet: it stops with {type(error).__name__}: {error}"
    print(f"Exercise {exercise}: {said}")
