"""Builds deep stacks of encoder layers, with and without residuals and norms (chapter 5).

`depth.json` records their trainings: six letters go in, and each position must name the letter that
stands as far from the other end. It holds mean losses of every twenty steps, the first layer's
gradient at the start, and the share of new words' letters that are right at the end.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import nn

from unmasked.config import LayerConfig
from unmasked.encoder import Encoder
from unmasked_book.ablation import no_norms, no_residuals


class Kind(NamedTuple):
    """A Kind says if an encoder has residuals, where its norms are, how its matrices are drawn."""

    residuals: bool
    norm: str  # post, pre or none
    start: str = "Glorot"  # or scaled, or PyTorch's

    def __str__(self) -> str:
        norm = "no norm" if self.norm == "none" else f"{self.norm}-norm"
        start = "" if self.start == "Glorot" else f", {self.start}"
        return f"{norm}, {'residuals' if self.residuals else 'no residuals'}{start}"


KINDS = tuple(Kind(*each) for each in product((True, False), ("post", "pre", "none")))
SCALED = tuple(kind._replace(start="scaled") for kind in KINDS[:3])
AS_DRAWN = tuple(kind._replace(start="PyTorch's") for kind in KINDS)


def stack(layers: int, kind: Kind, *, seed: int = 0, d_model: int = 64) -> Encoder:
    """Returns a new Encoder of this Kind, with `layers` layers.

    Its matrices are drawn as the package draws them (Glorot), or as `nn.Linear` does, or like the
    package's, but smaller by √(2 layers) where they write into the residual stream.
    """
    torch.manual_seed(seed)
    config = LayerConfig(d_model=d_model, n_heads=4, d_ff=4 * d_model, dropout=0.0,
                         norm="pre" if kind.norm == "pre" else "post")  # fmt: skip
    encoder = Encoder(config, layers, final_norm=kind.norm == "pre")
    if not kind.residuals:
        no_residuals(encoder)
    if kind.norm == "none":
        no_norms(encoder)
    for parameter in encoder.parameters():
        if parameter.dim() > 1 and kind.start != "PyTorch's":
            nn.init.xavier_uniform_(parameter)
    if kind.start == "scaled":
        with torch.no_grad():
            for layer in encoder.layers:
                for name in ("self_attention.output.weight", "feed_forward.contract.weight"):
                    layer.get_parameter(name).div_(math.sqrt(2 * layers))
    return encoder


def best(rows: Sequence[dict[str, Any]], layers: int, kind: str) -> dict[str, Any]:
    """Returns the record's row for these layers, this kind and warm-up with most letters right."""
    at = layers, kind, 100
    these = [row for row in rows if (row["layers"], row["kind"], row["warmup"]) == at]
    return max(these, key=lambda row: sum(row["right"]))
