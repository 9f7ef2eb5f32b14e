"""How fast a machine is: at fetching, at one matrix product, at a training step."""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from .config import TransformerConfig
from .data.corpus import Corpus
from .training import Recipe
from .training.processes import Processes
from .training.update import Updater
from .transformer import Transformer

PRECISIONS = {
    "float32": torch.float32,
    "TF32": torch.float32,  # the numbers in memory are float32's
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def synchronise(device: torch.device) -> None:
    """Waits for what was asked of a GPU; a CPU has done it when it answers."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def timed(run: Callable[[], object], times: int, device: torch.device) -> float:
    synchronise(device)
    begin = time.perf_counter()
    for _ in range(times):
        run()
    synchronise(device)
    return (time.perf_counter() - begin) / times


def seconds(
    run: Callable[[], object], device: torch.device, rounds: int = 5, least: float = 0.01
) -> float:
    """The median time of a run, after one to warm up.

    A short one is repeated until it takes `least` seconds: only then a clock, or a GPU that has
    to be waited for, does not count for much.
    """
    run()
    times = math.ceil(least / timed(run, 1, device))
    return statistics.median(timed(run, times, device) for _ in range(rounds))


# --- A machine's two limits -------------------------------------------------------------------


@contextmanager
def precision(name: str) -> Iterator[torch.dtype]:
    """The type of the numbers; within, products of float32 take TF32 if that is its name."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if name == "TF32" else "highest")
    try:
        yield PRECISIONS[name]
    finally:
        torch.set_float32_matmul_precision(before)


def products(
    sizes: Sequence[int],
    precisions: Sequence[str],
    device: torch.device,
    *,
    rounds: int = 5,
    patience: float = 0.2,
) -> dict[str, Any]:
    """Seconds of the product of two n × n matrices; larger ones are left out beyond `patience`."""
    found: dict[str, Any] = {}
    for name in precisions:
        times: list[float] = []
        with precision(name) as dtype:
            for n in sizes:
                if not times or times[-1] < patience:
                    a, b = torch.randn(2, n, n, device=device).to(dtype)
                    times.append(seconds(functools.partial(torch.mm, a, b), device, rounds))
        found[name] = {"sizes": list(sizes[: len(times)]), "seconds": times}
    return found


def bandwidth(device: torch.device, mebibytes: int = 256, rounds: int = 5) -> float:
    """Bytes a second, fetched and stored, in c = a + b with vectors that fit in no cache."""
    a, b, c = torch.zeros(3, mebibytes * 2**20 // 12, device=device)
    run = functools.partial(torch.add, a, b, out=c)
    moved: float = 3 * a.nbytes / seconds(run, device, rounds)
    return moved


# --- A model ----------------------------------------------------------------------------------


def training_step(
    config: TransformerConfig,
    lengths: Sequence[int],
    recipe: Recipe,
    device: torch.device,
) -> Callable[[], Tensor]:
    """One update of a new model, inside our engine, with random sentences of these lengths."""
    draws = torch.Generator().manual_seed(0)
    source, target = (
        [torch.randint(3, size, (n,), generator=draws).tolist() for n in lengths]
        for size in (config.source_vocab, config.target_vocab)
    )
    corpus = Corpus(source, [[1, *sentence] for sentence in target])  # as many labels as words
    model = Transformer(config).to(device)
    update = Updater(model, corpus, recipe, Processes(0, 1, device))
    return functools.partial(update, 1, range(len(lengths)))
