"""The decoder once more, as plain tensor operations for one step at a time.

A step is so little work that calling modules and checking shapes would take as long as computing.
Here the weights are read once a search: query, key and value of self-attention in one matrix, and
for short products on a CPU in the memory order that suits them (up to 1.7 × as fast). The numbers
are those of `Decoder` and `Generator`; only search uses this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import MultiHeadAttention
from .decoder import Decoder, DecoderLayer, DecoderState
from .dropout import Dropout
from .feed_forward import FeedForward
from .residual import Residual
from .transformer import Generator

Weights = tuple[Tensor, Tensor | None]
PLAIN = {
    *(Decoder, DecoderLayer, MultiHeadAttention, FeedForward, Residual, Dropout, Generator),
    *(nn.ModuleList, nn.Linear, nn.Conv1d, nn.LayerNorm),
}


@dataclass(frozen=True)
class Norm:
    """A residual's norm: before the sublayer or after the sum."""

    pre: bool
    options: tuple[Any, ...]

    def enter(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, *self.options) if self.pre else x

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y if self.pre else F.layer_norm(x + y, *self.options)


@dataclass(frozen=True)
class StepLayer:
    """What one layer multiplies with."""

    self_norm: Norm
    query_key_value: Weights
    self_output: Weights
    cross_norm: Norm
    cross_query: Weights
    cross_output: Weights
    feed_forward_norm: Norm
    expand: Weights
    contract: Weights


class StepDecoder:
    """Called with new vectors [B, W, D] and the state that remembers what came before them."""

    def __init__(self, decoder: Decoder, generator: Generator, *, column_major: bool) -> None:
        def weights(*parts: Any) -> Weights:
            matrix = torch.cat([part.weight.flatten(1) for part in parts])
            matrix = matrix.t().contiguous().t() if column_major else matrix
            return matrix, None if parts[0].bias is None else torch.cat([p.bias for p in parts])

        layer: Any
        self.layers: list[StepLayer] = []
        for layer in decoder.layers:
            own, across, forward = layer.self_attention, layer.cross_attention, layer.feed_forward
            self.layers.append(
                StepLayer(
                    self_norm=residual_norm(layer.self_residual),
                    query_key_value=weights(own.query, own.key, own.value),
                    self_output=weights(own.output),
                    cross_norm=residual_norm(layer.cross_residual),
                    cross_query=weights(across.query),
                    cross_output=weights(across.output),
                    feed_forward_norm=residual_norm(layer.feed_forward_residual),
                    expand=weights(forward.expand),
                    contract=weights(forward.contract),
                )
            )
            self.n_heads, self.activation = own.n_heads, forward.activation
        self.attentions: list[Any] = [layer.cross_attention for layer in decoder.layers]
        self.final_norm, self.generator = decoder.norm, weights(generator)

    def remember(self, memory: Tensor, state: DecoderState) -> None:
        """Computes cross-attention's keys and values, once for all steps."""
        for attention, remembered in zip(self.attentions, state.layers, strict=True):
            keys, values = attention.keys_and_values(memory, memory, len(memory))
            remembered.memory.append(keys, values)

    def __call__(
        self, x: Tensor, mask: Tensor | None, memory_mask: Tensor | None, state: DecoderState
    ) -> Tensor:
        """[B, W, D] → logits [B, W, V]. Masks as everywhere, but none of their rows is empty."""
        merge, (batch, width, d_model) = MultiHeadAttention.merge, x.shape
        heads = (batch, width, -1, self.n_heads, d_model // self.n_heads)
        for layer, remembered in zip(self.layers, state.layers, strict=True):
            y = F.linear(layer.self_norm.enter(x), *layer.query_key_value)
            q, k, v = y.view(heads).permute(2, 0, 3, 1, 4)  # three times [B, H, W, K]
            k, v = remembered.past.append(k, v)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = layer.self_norm.leave(x, F.linear(merge(y), *layer.self_output))

            y = F.linear(layer.cross_norm.enter(x), *layer.cross_query)
            q, k, v = y.view(heads)[:, :, 0].transpose(1, 2), *remembered.memory.read()
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=memory_mask)
            x = layer.cross_norm.leave(x, F.linear(merge(y), *layer.cross_output))

            y = F.linear(layer.feed_forward_norm.enter(x), *layer.expand)
            y = F.linear(self.activation(y), *layer.contract)
            x = layer.feed_forward_norm.leave(x, y)
        x = x if self.final_norm is None else self.final_norm(x)
        return F.linear(x, *self.generator)


def residual_norm(residual: Residual) -> Norm:
    norm = residual.norm
    return Norm(residual.pre, (norm.normalized_shape, norm.weight, norm.bias, norm.eps))


def is_plain(module: nn.Module) -> bool:
    """Whether reading the weights is enough: no hooks, and no parts of another making."""
    return not any(
        part._forward_hooks or part._forward_pre_hooks or type(part) not in PLAIN
        for part in module.modules()
    )
