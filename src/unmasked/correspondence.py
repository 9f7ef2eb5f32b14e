"""Which tensor of ours holds the same numbers as which tensor of `torch.nn`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .attention import MultiHeadAttention
from .decoder import Decoder, DecoderLayer
from .encoder import Encoder, EncoderLayer
from .transformer import Transformer
from .validation import invalid

Pairs = Iterator[tuple[str, Tensor | None, Tensor | None]]


def pairs(ours: Any, theirs: Any, prefix: str = "") -> Pairs:
    """(name, our tensor, their tensor); tensors may be views, None where one side has no bias."""
    if isinstance(ours, Transformer | Encoder | Decoder):
        parts = ("encoder", "decoder") if isinstance(ours, Transformer) else ("layers", "norm")
        for part in parts:
            yield from pairs(getattr(ours, part), getattr(theirs, part), f"{prefix}{part}.")
    elif isinstance(ours, nn.ModuleList):
        for number, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            yield from pairs(our, their, f"{prefix}{number}.")
    elif isinstance(ours, MultiHeadAttention):
        yield from _attention_pairs(ours, theirs, prefix)
    elif isinstance(ours, EncoderLayer | DecoderLayer):
        for our_name, their_name in _LAYER_PARTS[type(ours)]:
            our, their = ours.get_submodule(our_name), theirs.get_submodule(their_name)
            yield from pairs(our, their, f"{prefix}{their_name}.")
    elif ours is not None:  # a norm, a linear layer, a convolution
        yield f"{prefix}weight", ours.weight, theirs.weight
        yield f"{prefix}bias", ours.bias, theirs.bias


_LAYER_PARTS: dict[type, tuple[tuple[str, str], ...]] = {
    EncoderLayer: (
        ("self_attention", "self_attn"),
        ("attention_residual.norm", "norm1"),
        ("feed_forward.expand", "linear1"),
        ("feed_forward.contract", "linear2"),
        ("feed_forward_residual.norm", "norm2"),
    ),
    DecoderLayer: (
        ("self_attention", "self_attn"),
        ("self_residual.norm", "norm1"),
        ("cross_attention", "multihead_attn"),
        ("cross_residual.norm", "norm2"),
        ("feed_forward.expand", "linear1"),
        ("feed_forward.contract", "linear2"),
        ("feed_forward_residual.norm", "norm3"),
    ),
}


def _attention_pairs(ours: MultiHeadAttention, theirs: nn.MultiheadAttention, prefix: str) -> Pairs:
    if theirs.in_proj_weight is not None:
        weights = list(torch.split(theirs.in_proj_weight, ours.d_model))
    else:  # keys or values of another width
        weights = [getattr(theirs, f"{letter}_proj_weight") for letter in "qkv"]
    bias = theirs.in_proj_bias
    biases = [None] * 3 if bias is None else list(torch.split(bias, ours.d_model))
    for name, weight, their_bias in zip(("query", "key", "value"), weights, biases, strict=True):
        linear = ours.get_submodule(name)
        yield f"{prefix}{name}.weight", linear.weight, weight  # type: ignore[misc]
        yield f"{prefix}{name}.bias", linear.bias, their_bias  # type: ignore[misc]
    yield f"{prefix}out_proj.weight", ours.output.weight, theirs.out_proj.weight
    yield f"{prefix}out_proj.bias", ours.output.bias, theirs.out_proj.bias


def fitting(name: str, source: Tensor, like: Tensor) -> Tensor:
    """A convolution's [out, in, 1] and a matrix [out, in] hold the same numbers."""
    if source.dim() != like.dim():
        source = source.squeeze(-1) if source.dim() > like.dim() else source.unsqueeze(-1)
    if source.shape != like.shape:
        fix = "the two modules must have the same sizes"
        raise invalid(name, f"shape {list(like.shape)}", list(source.shape), fix)
    return source
