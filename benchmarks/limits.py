"""Arithmetic, reading or calls: what limits one thread of this machine, for chapter 13.

Example: python benchmarks/limits.py --record limits-cpu

Seconds are processor time, of one thread, so that other users count only by the caches and the
memory that they share. Rounds are interleaved, and all are kept: the fastest is disturbed least.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from command import command, say
from unmasked.config import TransformerConfig
from unmasked.loss import translation_loss
from unmasked.machine import machine
from unmasked.search import Cached
from unmasked.transformer import Transformer
from unmasked_book.costs import calls, step_weights, training_operations
from unmasked_book.records import record
from unmasked_book.timing import begun, decoding_step, enough, spent

CPU = torch.device("cpu")
Run = Callable[[], object]


def decoder(width: int, layers: int = 2) -> TransformerConfig:
    return TransformerConfig(source_vocab=1000, target_vocab=1000, d_model=width, n_heads=4,
                             n_layers=layers, d_ff=4 * width, dropout=0.0, norm="pre")  # fmt: skip


def module_step(config: TransformerConfig, rows: int) -> Run:
    """The second step of a search by the decoder's own modules, as for any model."""
    source, begin, parents = begun(config, rows, CPU)
    with torch.inference_mode():
        steps = Cached(Transformer(config).eval(), source, 1, 64)
        steps.step(begin, parents)
    real = steps.state.real

    @torch.inference_mode()
    def run() -> Tensor:
        steps.state.length, steps.state.real = 1, real  # each time as if it were the second
        for layer in steps.state.layers:
            layer.past.length = 1
        return steps.step(begin, parents)

    return run


def reading(count: int) -> dict[str, Run]:
    """Three ways to touch each of about so many numbers once: none, one and two operations."""
    matrix, vector = torch.randn(max(1, count // 1024), 1024), torch.randn(1024)
    return {"maximum": matrix.amax, "sum": matrix.sum,
            "times a vector": functools.partial(torch.mv, matrix, vector)}  # fmt: skip


def training_step(rows: int, length: int) -> tuple[Run, int]:
    """Of the paper's base model, with Adam, and its operations in products of matrices."""
    config = TransformerConfig.preset("base", source_vocab=37_000, target_vocab=37_000)
    model = Transformer(config)
    adam = torch.optim.Adam(model.parameters(), 1e-4, fused=True)
    source, target = (torch.randint(3, 37_000, (rows, n)) for n in (length, length + 1))

    def run() -> None:
        adam.zero_grad()
        translation_loss(model, source, target, smoothing=0.1).backward()
        adam.step()

    return run, training_operations(config, length, length, rows)


def interleaved(works: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    times = {name: enough(run) for name, run in works.items()}
    found: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for name, run in works.items():
            found[name].append(spent(run, times[name]))
    return found


@torch.no_grad()
def measure(widths: list[int], mebibytes: list[float], rounds: int) -> dict[str, Any]:
    works: dict[str, Run] = {}
    for n in (16, 32, 64, 128, 256, 512, 1024):
        works[f"product {n}"] = functools.partial(torch.mm, *torch.randn(2, n, n))
    for size in mebibytes:
        for way, run in reading(int(size * 2**18)).items():
            works[f"read {size:g} MiB, {way}"] = run
    layers = {n: decoding_step(decoder(16, n), 1, CPU) for n in (1, 2, 4, 8)}
    works |= {f"layers {n}": run for n, run in layers.items()}
    weights = {width: step_weights(decoder(width), 8) for width in widths}
    for width, count in weights.items():
        works[f"step {width}"] = decoding_step(decoder(width), 1, CPU)
        works |= {f"step {width}, {way}": run for way, run in reading(count).items()}
    for width in (64, 512):
        for rows in (1, 4, 16, 64):
            works[f"lean {width}, {rows}"] = decoding_step(decoder(width), rows, CPU)
        for rows in (1, 64):
            half = decoding_step(decoder(width), rows, CPU, dtype=torch.bfloat16)
            works[f"bfloat16 {width}, {rows}"] = half
            works[f"modules {width}, {rows}"] = module_step(decoder(width), rows)
    return {"calls": {str(n): calls(run).total() for n, run in layers.items()},
            "weights": {str(width): count for width, count in weights.items()},
            "seconds": interleaved(works, rounds)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", metavar="NAME", help="write NAME.json among the records")
    parser.add_argument("--small", action="store_true", help="a few seconds, to try it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    small = options.small
    found = measure([16, 32] if small else [16, 32, 64, 128, 256, 512, 1024],
                    [0.25] if small else [0.25, 1, 4, 16, 64], 2 if small else 50)  # fmt: skip
    if not small:
        step, operations = training_step(16, 25)
        product = functools.partial(torch.mm, *torch.randn(2, 1024, 1024))
        works: dict[str, Run] = {"step": step, "product 1024": product}
        found["base"] = {"sentences": 16, "tokens on each side": 25, "operations": operations,
                         "seconds": interleaved(works, 5)}  # fmt: skip
    result = {"machine": {**machine(), "command": command(__file__)}, **found}
    for name, times in result["seconds"].items():
        say(f"{1e6 * min(times):12,.1f} µs  {name}")
    if options.record:
        say(f"recorded in {record(options.record, result)}")


if __name__ == "__main__":
    main()
