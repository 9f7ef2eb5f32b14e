"""Chapter 13's exercises."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from unmasked import plain
from unmasked_book.costs import calls
from unmasked_book.exercises.compare import function, number, same_tensor

MOST_CALLS = 80  # of a step of two layers; computed anew, even the first takes more than 300


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
        for time, token in enumerate(target):
            found: list[Tensor] = []
            with torch.inference_mode():  # or PyTorch also counts what prepares gradients
                counted = calls(partial(ask, step, token, found))
            case = f"step {time + 1} for the source {source}"
            if wrong := same_tensor(found[0], expected[time], case):
                return wrong
            if counted.total() > MOST_CALLS:
                return f"not yet: {case} takes {counted.total()} calls, more than {MOST_CALLS}."
    return None


def ask(step: Step, token: int, found: list[Tensor]) -> None:
    found.append(step(token))


def speedup(shares: Sequence[float], factors: Sequence[float]) -> float:
    """Each part takes its share of the time, divided by how many times as fast it became."""
    return 1 / sum(share / factor for share, factor in zip(shares, factors, strict=True))


PARTS = (([0.75, 0.25], [3.0, 1.0]), ([0.5, 0.3, 0.2], [2.0, 1.0, 0.5]), ([1.0], [7.0]))
CHECKS = (
    number(100e9 / 20e9 * 4 / 2),  # r sentences use a weight's four bytes for 2 · r operations
    function("speedup", speedup, *PARTS, tolerance=1e-6),
)
PLUS = {"+": lean}
