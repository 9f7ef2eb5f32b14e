"""The experiments of chapter 13: each measures one claim, in small there and in full recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from . import beyond, by_length, copying, root_of_width, small_data, variations, warm_up

EXPERIMENTS: Mapping[str, Callable[..., Iterator[dict[str, Any]]]] = {
    "by-length": by_length.measure,
    "copying": copying.measure,
    "small-data": small_data.measure,
    "root-of-width": root_of_width.measure,
    "heads": partial(variations.measure, variations.HEADS),
    "positions": partial(variations.measure, variations.POSITIONS),
    "beyond": beyond.measure,
    "warm-up": warm_up.measure,
}
"""By name, each with the sizes at which it is recorded (`benchmarks/claims.py`)."""
