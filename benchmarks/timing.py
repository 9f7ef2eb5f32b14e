"""Timing contestants side by side: A B C A B C …, so that what disturbs one disturbs them all."""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

Run = Callable[[], object]


@dataclass
class Times:
    """Seconds of each contestant, round by round."""

    seconds: dict[str, list[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    def ratios(self, fast: str, slow: str) -> list[float]:
        """How many times as fast, round by round."""
        pairs = zip(self.seconds[slow], self.seconds[fast], strict=True)
        return [a / b for a, b in pairs]

    def ratio(self, fast: str, slow: str) -> float:
        return statistics.median(self.ratios(fast, slow))


def synchronise(device: torch.device) -> None:
    """Waits for what was asked of a GPU; a CPU has done it when it answers."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def timed(run: Run, device: torch.device) -> float:
    synchronise(device)
    begin = time.perf_counter()
    run()
    synchronise(device)
    return time.perf_counter() - begin


@contextmanager
def precision(name: str) -> Iterator[torch.dtype]:
    """The type of the numbers; within, products of float32 take TF32 if that is its name."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if name == "TF32" else "highest")
    try:
        yield torch.bfloat16 if name == "bfloat16" else torch.float32
    finally:
        torch.set_float32_matmul_precision(before)


def interleaved(contestants: dict[str, Run], rounds: int, device: str) -> Times:
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
                times.seconds[name].append(timed(contestants[name], where))
    finally:
        gc.enable()
    return times
