"""Measures what torch.compile makes of a training step and of a step of greedy search.

Example: python benchmarks/compiled.py --threads 1

The first call of each, those after it, how many of PyTorch's operations are left, and what takes
the largest shares of a later call. Writes compiled-DEVICE.json among the records, or another name.
Wants an idle machine and a C++ compiler.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from tqdm import tqdm

from command import command
from unmasked import TransformerConfig
from unmasked.machine import machine
from unmasked.training.recipe import Recipe
from unmasked_book.machines import decoding_step, profiled, seconds, synchronise, training_step
from unmasked_book.records import record

WIDTHS, ROWS, LENGTH, WORDS = (64, 512), 32, 24, 1000
WAYS = {"as written": False, "compiled": True}
Step = Callable[[], object]


def measured(width: int, device: torch.device, rounds: int) -> dict[str, Any]:
    """Of either step, both ways: seconds of the first and, in turns, the median of later ones."""
    sizes: dict[str, Any] = {"n_heads": 4, "n_layers": 2, "d_ff": 4 * width, "dropout": 0.0}
    words: dict[str, Any] = {"source_vocab": WORDS, "target_vocab": WORDS}
    config = TransformerConfig(**words, d_model=width, norm="pre", **sizes)
    works: dict[str, Callable[[bool], Step]] = {
        "training": lambda on: training_step(config, [LENGTH] * ROWS, Recipe(compile=on), device),
        "decoding": lambda on: decoding_step(config, 1, device, compiled=on),
    }
    found: dict[str, Any] = {"width": width}
    for work, made in works.items():
        torch._dynamo.reset()  # or it remembers another width's graph
        steps = {name: made(on) for name, on in WAYS.items()}
        later: dict[str, list[float]] = {name: [] for name in WAYS}
        first = {name: once(step, device) for name, step in steps.items()}
        for _ in tqdm(range(rounds), desc=f"{work}, width {width}", unit="round"):
            for name, step in steps.items():
                later[name].append(seconds(step, device, 3))
        medians = {name: statistics.median(times) for name, times in later.items()}
        counted = {name: operations(step) for name, step in steps.items()}
        inside = {name: largest(profiled(step, device)) for name, step in steps.items()}
        found[work] = {
            "first": first, "later": medians, "operations": counted, "inside": inside
        }  # fmt: skip
    return found


def operations(step: Step) -> int:
    """PyTorch's own, as its profiler sees them; what a compiler has made counts none."""
    with torch.profiler.profile() as found:
        step()
    return sum(x.count for x in found.key_averages() if x.key.startswith("aten::"))


def largest(shares: dict[str, float], n: int = 8) -> dict[str, float]:
    """The first n, with names that are the same in each run: a compiled graph's ends in a hash."""
    return {name.split(" CompiledFxGraph ")[0]: shares[name] for name in list(shares)[:n]}


def once(step: Step, device: torch.device) -> float:
    began = time.perf_counter()
    step()
    synchronise(device)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda (cpu)")
    parser.add_argument("--threads", type=int, default=1, help="on a CPU (1)")
    parser.add_argument("--rounds", type=int, default=7, help="measured in turns (7)")
    parser.add_argument("--record", metavar="NAME", help="the record's name (compiled-DEVICE)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    with tempfile.TemporaryDirectory() as cache:  # an empty one, or the first step is found there
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        torch.compile(torch.sin)(torch.ones(3, device=device))  # what only the first one pays
        widths = [measured(width, device, options.rounds) for width in WIDTHS]
    about = {**machine(device), "command": command(__file__)}
    sizes = {"rows": ROWS, "length": LENGTH, "words": WORDS, "layers": 2}
    name = options.record or f"compiled-{device.type}"
    path = record(name, {"machine": about, **sizes, "widths": widths})
    print(f"{len(widths)} widths are in {path}")


if __name__ == "__main__":
    main()
