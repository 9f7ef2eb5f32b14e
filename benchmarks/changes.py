"""What each change that made the search faster is worth: switched off alone, and all together.

Example: python benchmarks/changes.py

Greedy, for one sentence and for 32, in both sizes, on one thread. Writes changes.json among the
records. Wants an idle machine, for some ten minutes.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from command import command
from peers import Ours, Size
from timing import Run, interleaved
from unmasked.fast.packed import Layout
from unmasked.machine import machine
from unmasked.transformer import Transformer
from unmasked_book.records import record
from works import BASE, NEW_TOKENS, SMALL, module_by_module, ragged

STEPS = "unmasked.fast.steps"


def as_stored(weight: Tensor, bias: Tensor | None, rows: int) -> Callable[[Tensor], Tensor]:  # noqa: ARG001 (as products.product)
    return partial(F.linear, weight=weight, bias=bias)


def with_padding(model: Transformer, source: Tensor, layout: Layout) -> Tensor:
    return layout.pack(model.encode(source))


def fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


WITHOUT: dict[str, tuple[str, Any]] = {
    "matrices laid out": (f"{STEPS}.product", as_stored),
    "padding left out": (f"{STEPS}.packed_encode", with_padding),
    "two products for one query": (f"{STEPS}.attend", fused),
    "largest logit by NumPy": ("unmasked.search.likeliest_of", partial(torch.argmax, dim=-1)),
    "cross-attention folded": (f"{STEPS}.FoldedCrossAttention.fits", lambda *_: False),
}


def contestants(size: Size, rows: int) -> dict[str, Run]:
    """The search as it is, without each of the changes, without all of them, and by modules."""
    torch.manual_seed(0)
    source = ragged(rows, 24)
    ours = Ours(size, norm="pre").eval()
    asked: dict[str, list[str]] = {"all": [], **{name: [name] for name in WITHOUT}}
    asked["none"] = [*WITHOUT]

    def search(off: list[str]) -> Tensor:
        with ExitStack() as changed:
            for name in off:
                changed.enter_context(mock.patch(*WITHOUT[name]))
            return ours.greedy(source, NEW_TOKENS)

    found = {name: partial(search, off) for name, off in asked.items()}
    found["module by module"] = partial(module_by_module, found["all"])
    right = found["all"]().tolist()
    for name, run in found.items():
        different = sum(a != b for a, b in zip(run().tolist(), right, strict=True))
        if different > rows // 32:
            raise SystemExit(f"{name}: {different} of {rows} sentences differ")
    return dict(found)


def measured(size: Size, rows: int, rounds: int) -> dict[str, Any]:
    """Seconds of the median search, and how much longer it is without each change: quartiles of
    the ratios within a round.
    """
    times = interleaved(contestants(size, rows), rounds, "cpu")
    slower = {}
    for name, without in times.seconds.items():
        ratios = [a / b for a, b in zip(without, times.seconds["all"], strict=True)]
        slower[name] = statistics.quantiles(ratios, n=4, method="inclusive")
    return {"width": size.d_model, "rows": rows, "seconds": times.median("all"), "without": slower}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15, help="measured in turns (15)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    about = {**machine("cpu"), "command": command(__file__)}
    asked = list(product((SMALL, BASE), (1, 32)))
    searches = [measured(size, rows, options.rounds) for size, rows in tqdm(asked, unit="size")]
    path = record("changes", {"machine": about, "searches": searches})
    print(f"{len(searches)} searches are in {path}")


if __name__ == "__main__":
    main()
