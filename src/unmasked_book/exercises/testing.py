"""Judges the exercises of chapter 17."""

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


class Steps:
    """A step adds a token, times its position, to the sum of the earlier ones; it may be faulty."""

    def __init__(self, fault: str = "") -> None:
        self.fault, self.sum = fault, torch.zeros(1, 1, VOCABULARY).double()
        self.time = 0

    def __call__(self, token: Tensor) -> Tensor:
        self.time += 1
        place = 1 if self.fault == "stands at the first position" else self.time
        if self.fault == "forgets what came before":
            self.sum = torch.zeros_like(self.sum)
        if self.fault != "stops listening after three tokens" or self.time <= 3:
            self.sum = self.sum + place * F.one_hot(token, VOCABULARY)
        return self.sum + 1e-13 * (self.fault == "rounds otherwise")


def whole(target: Tensor) -> Tensor:
    places = torch.arange(1, target.shape[1] + 1).double()[:, None]
    return (places * F.one_hot(target, VOCABULARY)).cumsum(1)


def agrees(answer: Any) -> str | None:
    """Asks whether a step that remembers computes what the whole sentence gives."""
    for fault in FAULTS:
        got = answer(whole, partial(Steps, fault), torch.tensor([[1, 5, 3, 7, 4]]))
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
    """Asks which of three properties two healthy and six faulty models break."""
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
