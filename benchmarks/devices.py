"""Measures what a device can do, and what a training makes of it: by precision, batch and length.

Example: python benchmarks/devices.py --device cuda --record devices-cuda
"""

from __future__ import annotations

import argparse
import functools
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F

from command import command, say
from device_report import table
from device_sizes import SIZES, Kind
from unmasked import Transformer, TransformerConfig, attention
from unmasked import kernels as fused
from unmasked.machine import machine
from unmasked.training.recipe import Recipe
from unmasked_book.machines import (
    bandwidth,
    precision,
    products,
    seconds,
    synchronise,
    training_step,
)
from unmasked_book.records import record


def high_water() -> float:
    """The most memory that this process ever held, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would begin with the parent's mark
        return float(status.read_text().split("VmHWM:")[1].split()[0]) / 2**10
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def written_down(
    query: Tensor, key: Tensor, value: Tensor, mask: Any, dropout: float, scale: float
) -> Tensor:
    """In the place of the fused function: attention that stores its weights."""
    weights = attention.attention_weights(query, key, mask, scale=scale)
    return F.dropout(weights.to(value.dtype), dropout) @ value


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.device, self.rounds = torch.device(options.device), options.rounds
        self.threads, self.sizes = options.threads, SIZES[options.device]

    def step(self, lengths: Sequence[int], kind: Kind) -> Callable[[], object]:
        of: Literal["float32", "bfloat16"]
        of = "bfloat16" if kind.precision == "bfloat16" else "float32"
        recipe = Recipe(precision=of, packed=kind.packed, compile=kind.compiled)
        return training_step(self.sizes.model, lengths, recipe, self.device)

    def inside(self, kind: Kind) -> ExitStack:
        """Where such steps are computed."""
        stack = ExitStack()
        stack.enter_context(precision(kind.precision))
        if kind.explicit:
            stack.enter_context(mock.patch.object(attention, "fused_attention", written_down))
        if kind.kernel:
            never = mock.Mock(return_value=False)
            stack.enter_context(mock.patch.object(fused, "slow_backward", never))
        return stack

    def measure(self, lengths: Sequence[int], kind: Kind) -> dict[str, float | None]:
        """Seconds of a step, and the MiB that it needs; neither, if the memory is too small."""
        say(f"    {len(lengths)} rows of up to {max(lengths)} words, {kind.name}")
        try:
            with self.inside(kind):
                time = seconds(self.step(lengths, kind), self.device, self.rounds)
            return {"seconds": time, "mebibytes": self.memory(lengths, kind)}
        except torch.OutOfMemoryError:
            return {"seconds": None, "mebibytes": None}

    def memory(self, lengths: Sequence[int], kind: Kind) -> float:
        """The most that a training holds at a time: its model, Adam's means, and a step."""
        if self.device.type == "cpu":  # in a process of its own, whose memory nothing has shaped
            words = ["--threads", str(self.threads), "--peak", json.dumps([lengths, asdict(kind)])]
            done = subprocess.run(
                [sys.executable, __file__, *words], check=True, stdout=subprocess.PIPE
            )
            found: float = json.loads(done.stdout)
            return found
        return self.peak(lengths, kind)

    def peak(self, lengths: Sequence[int], kind: Kind) -> float:
        on_gpu = self.device.type != "cpu"
        if on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() / 2**20 if on_gpu else high_water()
        with self.inside(kind):
            run = self.step(lengths, kind)
            run()
            run()  # from the second on, Adam's means are there
            synchronise(self.device)
        after = torch.cuda.max_memory_allocated() / 2**20 if on_gpu else high_water()
        return after - before

    def series(self, cases: Sequence[Sequence[int]], kinds: Sequence[Kind]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for kind in kinds:
            measured = [self.measure(lengths, kind) for lengths in cases]
            columns = ("seconds", "mebibytes")
            found[kind.name] = {name: [each[name] for each in measured] for name in columns}
        return found

    def backward(self) -> dict[str, Any]:
        """Milliseconds of attention forward and backward, the kernel's own and ours."""
        lengths, found = (16, 64, 256, 1024), dict[str, list[float]]()
        ways: dict[str, Any] = {
            "kernel": F.scaled_dot_product_attention,
            "ours": attention.attention,
        }
        for n in lengths:
            for name in ("float32", "bfloat16"):
                with precision(name) as dtype:
                    shape = (4096 // n, 8, n, 64)
                    x = torch.randn(3, *shape, device=self.device, dtype=dtype).requires_grad_()
                for way, function in ways.items():
                    run = functools.partial(there_and_back, function, x)
                    time = seconds(run, self.device, self.rounds)
                    found.setdefault(f"{way}, {name}", []).append(1000 * time)
        return {"lengths": lengths, "milliseconds": found}

    def short(self) -> dict[str, Any]:
        """Rows of half the length, where PyTorch's attention in bfloat16 may be slow."""
        say("training steps, with PyTorch's attention and with ours")
        rows, length = self.sizes.rows[-1], self.sizes.length // 2
        kinds = self.series(
            [[length] * rows], [Kind(), Kind("bfloat16", kernel=True), Kind("bfloat16")]
        )
        return {"rows": rows, "length": length, "kinds": kinds}

    def everything(self, compiled: bool) -> dict[str, Any]:
        sizes = self.sizes
        plain = [Kind(name) for name in sizes.precisions if name != "float16"]
        kinds = [*plain, *([replace(plain[-1], compiled=True)] if compiled else [])]
        say("products of two matrices")
        result: dict[str, Any] = {
            "model": asdict(sizes.model),
            "parameters": parameters(sizes.model),
            "bandwidth": bandwidth(self.device),
            "products": products(sizes.products, sizes.precisions, self.device, rounds=self.rounds),
        }
        say("training steps, more and more rows")
        cases = [[sizes.length] * rows for rows in sizes.rows]
        result["rows"] = {"rows": sizes.rows, "length": sizes.length,
                          "kinds": self.series(cases, kinds)}  # fmt: skip
        say("training steps, longer and longer rows")
        cases = [[n] * (sizes.tokens // n) for n in sizes.lengths]
        ways = [Kind(explicit=True), Kind(), Kind("bfloat16")]
        result["lengths"] = {"lengths": sizes.lengths, "tokens": sizes.tokens,
                             "kinds": self.series(cases, ways)}  # fmt: skip
        say("training steps, with padding and without")
        most = sizes.rows[-1]
        ragged = [1 + (sizes.length - 1) * row // (most - 1) for row in range(most)]
        ways = [each for kind in plain for each in (kind, replace(kind, packed=True))]
        result["ragged"] = {"rows": len(ragged), "words": sum(ragged),
                            "kinds": self.series([ragged], ways)}  # fmt: skip
        result["short"] = self.short()
        say("attention, forward and backward")
        result["attention"] = self.backward()
        return result


def there_and_back(function: Callable[..., Tensor], x: Tensor) -> None:
    function(*x).sum().backward()


def parameters(config: TransformerConfig) -> int:
    with torch.device("meta"):
        return Transformer(config).count_parameters()


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--device", choices=tuple(SIZES), default="cpu")
    made.add_argument("--threads", type=int, default=torch.get_num_threads())
    made.add_argument("--rounds", type=int, default=5, help="of which the median is taken (5)")
    made.add_argument("--compile", action="store_true", help="also with torch.compile")
    made.add_argument("--record", metavar="NAME", help="also write NAME.json among the records")
    made.add_argument("--peak", type=json.loads, help=argparse.SUPPRESS)  # one step's memory
    options = made.parse_args(words)
    if options.device == "cuda" and not torch.cuda.is_available():
        made.error("--device cuda: no GPU that torch can use was found; leave the option out")
    return options


def main(words: Sequence[str] | None = None) -> None:
    options = arguments(words)
    torch.set_num_threads(options.threads)
    bench = Bench(options)
    if options.peak:
        lengths, kind = options.peak
        print(bench.peak(lengths, Kind(**kind)))
        return
    about = {**machine(options.device), "command": command(__file__, words)}
    result = {"machine": about, **bench.everything(options.compile)}
    print(table(result))
    if options.record:
        say(f"recorded in {record(options.record, result)}")


if __name__ == "__main__":
    main()
