"""Judges answers to the exercises of chapter 13."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from unmasked import plain
from unmasked_book.costs import Calls
from unmasked_book.exercises.compare import function, number, same_tensor

MOST_CALLS = 80  # in a step of two layers; without a cache even the first takes more than 300


def lean(answer: Callable[[plain.Transformer, Tensor], Callable[[int], Tensor]]) -> str | None:
    """Judges a reader's decoding step: it must give the model's logits in few calls to PyTorch."""
    model = plain.Transformer(20, 24, d_model=16, n_heads=4, n_layers=2, d_ff=32).eval()
    for source, target in (([5, 7, 9, 4, 2], [1, 4, 6, 3, 8, 21]), ([11, 2], [1, 17, 17])):
        given = torch.tensor([source])
        with torch.no_grad():
            expected = model(given, torch.tensor([target]))[0]
        step = answer(model, given)
        for time, token in enumerate(target):
            with torch.inference_mode(), Calls() as counted:  # none prepares gradients
                found = step(token)
            case, calls = f"step {time + 1} for the source {source}", counted.count.total()
            if wrong := same_tensor(found, expected[time], case):
                return wrong
            if calls > MOST_CALLS:
                return f"not yet: {case} takes {calls} calls, more than {MOST_CALLS}."
    return None


def speedup(shares: Sequence[float], factors: Sequence[float]) -> float:
    """Returns a program's speedup from the parts' shares of its time and their own speedups."""
    return 1 / sum(share / factor for share, factor in zip(shares, factors, strict=True))


PARTS = (([0.75, 0.25], [3.0, 1.0]), ([0.5, 0.3, 0.2], [2.0, 1.0, 0.5]), ([1.0], [7.0]))
CHECKS = {
    "1": number(100e9 / 20e9 * 4 / 2),  # r sentences use a weight's four bytes for 2 · r operations
    "2": function("speedup", speedup, *PARTS, tolerance=1e-6),
    "+": lean,
}
