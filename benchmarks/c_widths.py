"""One search in models of several widths, ours and CTranslate2's: what is left without arithmetic.

Example: python benchmarks/c_widths.py

Greedy, for one sentence, on one thread: up to the first new token, and all of them; and beside both
engines the matrix products of our steps with nothing between them. All sizes are measured several
times over, since the caches of a virtual machine are shared with others, and times then differ from
one minute to the next. Writes c-widths.json among the records. Wants an idle machine, for one or
two minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch
from tqdm import tqdm

from command import command
from peers import Size
from timing import interleaved
from unmasked.machine import machine
from unmasked_book.machines import step_products
from unmasked_book.records import record
from works import NEW_TOKENS, SMALL, beside_c

WIDTHS = (16, 32, 64, 128, 256)
TOKENS = (1, NEW_TOKENS)


def measured(width: int, new: int, rounds: int) -> dict[str, float]:
    """Seconds of the median search of each engine, in turns; else like the small model."""
    torch.manual_seed(0)
    size = Size(d_model=width, n_heads=SMALL.n_heads, n_layers=SMALL.n_layers, d_ff=4 * width)
    contestants = beside_c(size, 1, "cpu", new=new) | {"products": products(size, new)}
    times = interleaved(contestants, rounds, "cpu")
    return {name: times.median(name) for name in contestants}


def products(size: Size, new: int) -> Callable[[], None]:
    """Those of so many of our steps, for a source as long as the others translate."""
    step = step_products(size.config(), 24, torch.device("cpu"))

    def run() -> None:
        for _ in range(new):
            step()

    return run


def several(repeats: int, rounds: int) -> list[dict[str, Any]]:
    """All sizes, so many times over; for each engine a list of seconds."""
    sizes = [(width, new) for width in WIDTHS for new in TOKENS]
    found: dict[tuple[int, int], list[dict[str, float]]] = {size: [] for size in sizes}
    for width, new in tqdm(sizes * repeats, unit="size"):
        found[width, new].append(measured(width, new, rounds))
    return [
        {"width": width, "new_tokens": new,
         "seconds": {name: [each[name] for each in times] for name in times[0]}}
        for (width, new), times in found.items()
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15, help="measured in turns (15)")
    parser.add_argument("--repeats", type=int, default=5, help="of all sizes (5)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    about = {**machine("cpu"), "command": command(__file__), "ctranslate2": version("ctranslate2")}
    searches = several(options.repeats, options.rounds)
    sizes = {"layers": SMALL.n_layers, "words": SMALL.vocab}
    path = record("c-widths", {"machine": about, **sizes, "searches": searches})
    print(f"{len(searches)} searches are in {path}")


if __name__ == "__main__":
    main()
