"""What a model costs, counted and not measured: operations from its sizes, bytes from its numbers.

An operation is one multiplication or one addition of two numbers; a product and its sum are two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .config import TransformerConfig
from .validation import check_at_least

FLOAT32 = 4  # bytes


def multiply_adds(
    config: TransformerConfig, source: int, target: int, rows: int = 1
) -> dict[str, int]:
    """Products, each with its sum, of a forward pass over so many rows, part by part.

    The encoder reads `source` words a row, the decoder `target`; padding is computed like words.
    """
    for name, value in (("source", source), ("target", target), ("rows", rows)):
        check_at_least(name, value, 1)
    d, encoder, decoder = config.d_model, config.n_layers, config.decoder_layers
    read, written = rows * source, rows * target
    across = decoder * (2 * written + 2 * read)  # queries and outputs; keys and values
    pairs = encoder * source**2 + decoder * (target**2 + target * source)
    return {
        "projections": (encoder * 4 * read + decoder * 4 * written + across) * d**2,
        "scores, means": rows * pairs * 2 * d,
        "feed-forward": (encoder * read + decoder * written) * 2 * d * config.d_ff,
        "logits": written * d * config.target_vocab,
    }


def training_operations(config: TransformerConfig, source: int, target: int, rows: int = 1) -> int:
    """Those of a training step's matrix products, without what is computed twice to save memory.

    Each product of the forward pass has two of its size in the backward pass: one for the gradient
    of either factor.
    """
    return 2 * 3 * sum(multiply_adds(config, source, target, rows).values())


def product_operations(m: int, k: int, n: int) -> int:
    """Of the matrix product [m, k] · [k, n]."""
    return 2 * m * k * n


def product_bytes(m: int, k: int, n: int, width: int = FLOAT32) -> int:
    """What it has to fetch and to store, if it does so once, with numbers of `width` bytes."""
    return width * (m * k + k * n + m * n)


def attainable(intensity: float, peak: float, bandwidth: float) -> float:
    """The roofline: operations a second, at so many operations for each byte fetched.

    `peak` is what the machine computes in a second, `bandwidth` what it fetches.
    """
    return min(peak, intensity * bandwidth)


def training_bytes(parameters: int, processes: int = 1, *, sharded: bool = False) -> dict[str, int]:
    """What each process holds between two steps with Adam, in float32; sharded, only its part."""
    held = -(-parameters // processes) if sharded else parameters
    return {"weights": FLOAT32 * held, "gradients": FLOAT32 * held, "Adam": 2 * FLOAT32 * held}


# --- Beside what was measured -----------------------------------------------------------------


def speeds(measured: Mapping[str, Any]) -> list[float]:
    """Operations a second of `speed.products`, size by size, in one precision."""
    pairs = zip(measured["sizes"], measured["seconds"], strict=True)
    return [product_operations(n, n, n) / seconds for n, seconds in pairs]


def peak(products: Mapping[str, Any], precision: str) -> float:
    """The most operations a second that a product reached."""
    return max(speeds(products[precision]))


def share_of_peak(
    config: TransformerConfig, rows: int, length: int, seconds: float, highest: float
) -> float:
    """How much of what a device can do a training step makes use of, with so many words a row."""
    return training_operations(config, length, length, rows) / seconds / highest


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """b in y ≈ a · x^b: the slope on logarithmic scales."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
