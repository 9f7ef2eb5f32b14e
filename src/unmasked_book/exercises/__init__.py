"""Checks for the book's exercises: `check_answer("masks 1", yours)` says whether it is right."""

from collections.abc import Callable
from typing import Any

import torch

from unmasked.errors import check_choice
from unmasked_book.exercises import (
    attention,
    better,
    claims,
    decoder,
    decoding,
    encoder,
    family,
    feed_forward,
    inside,
    masks,
    positions,
    speed,
    testing,
    training,
    transformer,
    translating,
)
from unmasked_book.exercises.answering import verdict

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
    "better": better,
    "inside": inside,
    "speed": speed,
    "family": family,
    "claims": claims,
    "testing": testing,
}
CHECKS: dict[str, Callable[[Any], str | None]] = {
    f"{chapter} {number}": function
    for chapter, module in CHAPTERS.items()
    for number, function in enumerate(module.CHECKS, start=1)
} | {f"{chapter} +": module.PLUS for chapter, module in CHAPTERS.items() if hasattr(module, "PLUS")}
CHECKS |= {"family + T5": family.distances, "family + Whisper": family.hearing}


def check_answer(exercise: str, answer: Any) -> None:
    """Prints whether the answer to an exercise is right, and if not, a case in which it fails.

    `...` as the answer, or a function that returns nothing, is waiting for its reader.
    """
    check_choice("exercise", exercise, list(CHECKS))
    with torch.random.fork_rng(range(torch.cuda.device_count())):  # the reader's draws go on
        print(f"Exercise {exercise}: {verdict(CHECKS[exercise], answer)}")
