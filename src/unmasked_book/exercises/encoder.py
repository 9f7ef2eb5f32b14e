"""Judges answers to the exercises of chapter 5."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unmasked.config import TransformerConfig
from unmasked.transformer import Transformer
from unmasked_book.exercises.compare import function, number, same_tensor
from unmasked_book.inside import stream_parts

SOURCE = torch.tensor([[3, 4, 5, 6, 2], [7, 2, 0, 0, 0]])


@torch.no_grad()
def stream(answer: Callable[[Transformer, Tensor], list[Tensor]]) -> str | None:
    """Judges a list of what is added to the encoder's residual stream: embedding, sublayers."""
    for layers in (1, 3):
        model = pre_norm(layers)
        got, expected = answer(model, SOURCE), added(model)
        if not isinstance(got, list | tuple | Tensor) or len(got) != len(expected):
            asked = f"a list of {len(expected)} tensors: the embedding, and two for each layer"
            return f"not yet: asked for is {asked}."
        for place, parts in enumerate(zip(got, expected, strict=True)):
            sublayer = ("feed-forward", "attention")[place % 2]
            name = f"what layer {(place + 1) // 2}'s {sublayer} adds" if place else "the embedding"
            if wrong := same_tensor(*parts, f"part {place}, {name},", real=SOURCE != 0):
                return wrong
    return None


def pre_norm(layers: int, **options: Any) -> Transformer:
    """Returns a small pre-norm model with random parameters, so that no two norms are alike."""
    sizes: Any = {"source_vocab": 9, "target_vocab": 9, "d_model": 8, "n_heads": 2, "d_ff": 16}
    config = TransformerConfig(**sizes, n_layers=layers, norm="pre", **options)
    model = Transformer(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def added(model: Transformer) -> list[Tensor]:
    """Returns 1 + 2 · layers tensors [B, S, D]: the embedding, then what encoder sublayers add."""
    return [part for _, part in stream_parts(model, SOURCE, SOURCE, "encoder")]


VECTORS = 3 + 2 * torch.arange(48.0).view(2, 3, 8).sin()
CASES = ((VECTORS[0, 0], 1e-5), (VECTORS, 0.5))
CHECKS = {
    "1": number(2**0.5, 0.005),  # the last number of the layer norm of 2, 4, 4, 6
    "2": function("my_layer_norm", lambda x, eps: F.layer_norm(x, x.shape[-1:], eps=eps), *CASES),
    "+": stream,
}
