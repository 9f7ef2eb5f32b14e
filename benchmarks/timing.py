"""Times contestants in turn (A B C A B C …), so that what disturbs one disturbs them all."""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

Run = Callable[[], object]


def command() -> str:
    """Returns the command that was called, as one types it in the repository."""
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def say(text: str) -> None:
    """Prints beside the result, which goes to standard output."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class Times:
    """Holds each contestant's seconds, round by round."""

    seconds: dict[str, list[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    def ratios(self, fast: str, slow: str) -> list[float]:
        """Returns how many times as fast the first is, round by round."""
        return [a / b for a, b in zip(self.seconds[slow], self.seconds[fast], strict=True)]

    def ratio(self, fast: str, slow: str) -> float:
        return statistics.median(self.ratios(fast, slow))


def synchronise(device: torch.device) -> None:
    """Waits until a GPU has done what was asked of it."""
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
    """Yields the numbers' type; meanwhile float32 products use TF32 if that is the name."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if name == "TF32" else "highest")
    try:
        yield torch.bfloat16 if name == "bfloat16" else torch.float32
    finally:
        torch.set_float32_matmul_precision(before)


def interleaved(contestants: dict[str, Run], rounds: int, device: str) -> Times:
    """Runs everyone once to warm up, then `rounds` times, each round from another beginning."""
    names, where = list(contestants), torch.device(device)
    for run in contestants.values():
        run()
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
