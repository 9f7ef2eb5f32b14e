"""What benchmarks/devices.py measures on each kind of device, and in which ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unmasked import TransformerConfig


@dataclass(frozen=True)
class Sizes:
    """What is measured on a kind of device."""

    model: TransformerConfig
    products: tuple[int, ...]
    precisions: tuple[str, ...]
    rows: tuple[int, ...]  # of a batch …
    length: int  # … in which every row has so many words
    lengths: tuple[int, ...]  # of the rows of a batch …
    tokens: int  # … that has so many on either side


def model(vocabulary: int, **changes: Any) -> TransformerConfig:
    """Without dropout: with it, a CPU has no fused attention."""
    sizes = {"source_vocab": vocabulary, "target_vocab": vocabulary, "dropout": 0.0}
    return TransformerConfig(**{**sizes, **changes})


SIZES = {
    "cpu": Sizes(
        model=model(8000, d_model=256, n_heads=4, n_layers=3, d_ff=1024),
        products=(32, 64, 128, 256, 512, 1024, 2048),
        precisions=("float32", "bfloat16", "float16"),
        rows=(1, 2, 4, 8, 16, 32, 64),
        length=32,
        lengths=(32, 64, 128, 256, 512, 1024),
        tokens=2048,
    ),
    "cuda": Sizes(
        model=model(32000),  # the paper's base
        products=(128, 256, 512, 1024, 2048, 4096, 8192, 16384),
        precisions=("float32", "TF32", "bfloat16", "float16"),
        rows=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
        length=64,
        lengths=(64, 128, 256, 512, 1024, 2048, 4096),
        tokens=16384,
    ),
}


@dataclass(frozen=True)
class Kind:
    """How a step is computed."""

    precision: str = "float32"
    explicit: bool = False  # attention's weights are written down
    packed: bool = False
    compiled: bool = False
    kernel: bool = False  # PyTorch's attention, also where we take another way

    @property
    def name(self) -> str:
        ways = ("explicit", "packed", "compiled", "kernel")
        return ", ".join([self.precision, *(way for way in ways if getattr(self, way))])
