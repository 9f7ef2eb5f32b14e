"""Chapter 13's exercises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from unmasked import plain
from unmasked_book.costs import calls
from unmasked_book.exercises.compare import same_number, same_tensor

MOST_CALLS = 80  # of a step of two layers; computed anew, even the first takes more than 300


def sentences(answer: float) -> str | None:
    """r of them use a float32 weight for 2 · r operations, and its four bytes are read once."""
    return same_number(answer, 100e9 / 20e9 * 4 / 2)


def speedup(answer: Callable[[Sequence[float], Sequence[float]], float]) -> str | None:
    """Each part takes its share of the time, divided by how many times as fast it became."""
    cases = (([0.75, 0.25], [3.0, 1.0]), ([0.5, 0.3, 0.2], [2.0, 1.0, 0.5]), ([1.0], [7.0]))
    for shares, factors in cases:
        expected = 1 / sum(share / factor for share, factor in zip(shares, factors, strict=True))
        if wrong := same_number(answer(shares, factors), expected, 1e-6):
            return f"{wrong} That was speedup({shares}, {factors})."
    return None


Step = Callable[[int], Tensor]


def lean(answer: Callable[[plain.Transformer, Tensor], Step]) -> str | None:
    """Step after step, the logits of the plain model, in few calls."""
    torch.manual_seed(0)
    model = plain.Transformer(20, 24, d_model=16, n_heads=4, n_layers=2, d_ff=32).eval()
    for source, target in (([5, 7, 9, 4, 2], [1, 4, 6, 3, 8, 21]), ([11, 2], [1, 17, 17])):
        given = torch.tensor([source])
        with torch.no_grad():
            expected = model(given, torch.tensor([target]))[0]
        step = answer(model, given)
        for number, token in enumerate(target):
            found: list[Tensor] = []
            with torch.inference_mode():  # or PyTorch also counts what prepares gradients
                counted = calls(partial(ask, step, token, found))
            case = f"step {number + 1} for the source {source}"
            if wrong := same_tensor(found[0], expected[number], case):
                return wrong
            if counted.total() > MOST_CALLS:
                return f"not yet: {case} takes {counted.total()} calls, more than {MOST_CALLS}."
    return None


def ask(step: Step, token: int, found: list[Tensor]) -> None:
    found.append(step(token))


CHECKS = (sentences, speedup)
PLUS = lean
