"""Timing contestants side by side: A B C A B C …, so that what disturbs one disturbs them all."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from unmasked_book.timing import timed

Run = Callable[[], object]


@dataclass
class Times:
    """Seconds of each contestant, round by round."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    def quartiles(self, name: str) -> tuple[float, float]:
        low, _, high = statistics.quantiles(self.seconds[name], n=4, method="inclusive")
        return low, high

    def ratio(self, fast: str, slow: str) -> float:
        """How many times as fast: the median over rounds of slow / fast within a round."""
        pairs = zip(self.seconds[slow], self.seconds[fast], strict=True)
        return statistics.median(a / b for a, b in pairs)


def interleaved(contestants: dict[str, Run], rounds: int, device: str, how: Any = timed) -> Times:
    """Runs everyone once to warm up, then `rounds` times, each round from another beginning."""
    names, where = list(contestants), torch.device(device)
    for name in names:
        contestants[name]()
    times = Times({name: [] for name in names})
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                times.seconds[name].append(how(contestants[name], 1, where))
    finally:
        gc.enable()
    return times
