"""Judges answers to the exercises of chapter 17."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unmasked_book import faulty

VOCABULARY = 10
FAULTS = ("", "rounds otherwise", "forgets what came before", "stands at the first position",
          "stops listening after three tokens")  # fmt: skip


def begun(fault: str) -> Callable[[Tensor], Tensor]:
    """Returns a function of the next token that sums position · one-hot over all, with a fault."""
    seen: list[Tensor] = []

    def step(token: Tensor) -> Tensor:
        place = 1 if fault == "stands at the first position" else len(seen) + 1
        seen.append(torch.zeros(1, 1, VOCABULARY) + place * F.one_hot(token, VOCABULARY).double())
        kept = {
            "forgets what came before": seen[-1:],
            "stops listening after three tokens": seen[:3],
        }
        return torch.stack(kept.get(fault, seen)).sum(0) + 1e-13 * (fault == "rounds otherwise")

    return step


def whole(target: Tensor) -> Tensor:
    places = torch.arange(1, target.shape[1] + 1).double()[:, None]
    return (places * F.one_hot(target, VOCABULARY)).cumsum(1)


def agrees(answer: Any) -> str | None:
    """Judges a test of whether decoding token by token computes what the whole sentence gives."""
    for fault in FAULTS:
        got = answer(whole, partial(begun, fault), torch.tensor([[1, 5, 3, 7, 4]]))
        if bool(got) != (fault in ("", "rounds otherwise")):
            name = f"a step that {fault}" if fault else "a right step"
            return f"not yet: of {name}, agrees(...) says {got}."
    return None


ASKED = {"causality", "source", "padding"}
EXAMINED = (
    "Healthy", "Torch", "no causal mask", "no cross-attention",
    "cross-attention that reads the target", "source padding is seen by the encoder",
    "source padding is seen in cross-attention", "a summary of the whole target",
)  # fmt: skip


def examines(answer: Callable[[nn.Module], Iterable[str]]) -> str | None:
    """Judges a test that must name which of three properties each of eight models breaks."""
    for name in EXAMINED:
        known = faulty.FAULTY.get(name)
        model = (known.make if known else getattr(faulty, name))().eval()
        expected = ASKED & known.properties if known else set()
        got = set(answer(model))
        if got != expected:
            said, right = (", ".join(sorted(each)) or "nothing" for each in (got, expected))
            return f"not yet: {name} breaks {right}, and examine(...) says {said}."
    return None


CHECKS = {"1": agrees, "+": examines}
