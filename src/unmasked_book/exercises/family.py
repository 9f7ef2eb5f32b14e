"""Chapter 14's exercises."""

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch

from unmasked_book import family
from unmasked_book.exercises.answering import NoAnswerError
from unmasked_book.exercises.compare import function, number, same_where
from unmasked_book.family import GPT
from unmasked_book.workshop.mistakes import known
from unmasked_book.workshop.verdicts import unwritten

SIZES = (9, 12, 3, 2, 20)
TOKENS = torch.tensor([[1, 5, 4, 8, 2], [1, 7, 2, 0, 0], [0, 0, 1, 7, 3]])  # padding on either side


@torch.no_grad()
def half(answer: Callable[..., Any]) -> str | None:
    """A decoder without cross-attention, beside `family.GPT` with the same random weights."""
    if isinstance(answer, type) and unwritten(answer):
        raise NoAnswerError
    torch.manual_seed(0)
    weights = {key: 0.5 * torch.randn_like(x) for key, x in GPT(*SIZES).state_dict().items()}

    def logits(model: Any) -> Any:
        model.load_state_dict(weights)
        return model.eval()(TOKENS)

    got, right = logits(answer(*SIZES)), logits(GPT(*SIZES))
    if wrong := same_where(TOKENS != 0, got, right, "the output", 1e-4):
        for mistake in known("GPT"):
            other = logits(edited(*mistake.changes[0])(*SIZES)).nan_to_num(1e9)
            if not same_where(TOKENS != 0, got.nan_to_num(1e9), other, "", 1e-4):
                return f"not yet: your numbers are those of {mistake.words}."
    return wrong


def edited(old: str, new: str) -> Any:
    """`family.GPT` with a mistake in it."""
    names = dict(vars(family))
    exec(inspect.getsource(GPT).replace(old, new), names)
    return names["GPT"]


def bucket(distance: int) -> int:
    """T5's 32 buckets of a decoder: one for each distance below 16, then by the logarithm."""
    far = 16 + int(16 * math.log(max(distance, 16) / 16) / math.log(128 / 16))
    return min(distance, far, 31)


CHECKS = (
    number(2 * 4096 * 4096 + 2 * 4096 * 8 * 128),  # Mistral 7B: 32 heads of 128, in 8 groups
    function("bucket", bucket, *((distance,) for distance in range(300))),
)
PLUS = half
