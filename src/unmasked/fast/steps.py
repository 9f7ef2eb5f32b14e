"""One step of decoding after the other, for several hypotheses of several sentences.

A step is so little work that calling modules and checking shapes would take as long as computing.
Here the weights are read once a search, query, key and value of self-attention in one matrix, and
laid out for short products. For plain models only (`guard.is_plain`); `search.Cached` does the same
for any model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..attention import MultiHeadAttention
from ..config import PADDING
from ..decoder import DecoderState
from ..encoder import Residual
from ..masks import padding_mask
from ..transformer import Transformer
from .packed import Layout, packed_encode
from .products import Product, product


class FastSteps:
    """One query a hypothesis, one cache a sentence.

    The W hypotheses of a sentence are W queries into one cache that holds every step of all of
    them. Who descends from whom is a mask, so that reordering hypotheses moves no key or value.
    """

    def __init__(self, model: Transformer, source: Tensor, width: int, steps: int) -> None:
        self.model, self.width, self.time = model, width, 0
        mask = padding_mask(source)
        self.mask = None if bool(mask.all()) else added(mask, model.generator.weight.dtype)
        self.state = model.start(min(steps, 128) * width)  # memory for most sentences
        self.own = torch.eye(width, dtype=torch.bool, device=source.device)
        self.ancestors = source.new_zeros(len(source), width, 0, dtype=torch.bool)
        self.decoder = StepDecoder(model, rows=len(source) * width)
        real = Layout(source != PADDING)
        memory = real.unpack(packed_encode(model, source, real))
        self.decoder.remember(memory, self.state)

    def step(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """The newest tokens and the hypotheses they continue, both [B, W] → logits [B, W, V]."""
        x = self.model.target_embedding(tokens.reshape(-1, 1), self.time)
        x = x.view(*tokens.shape, -1)  # [B, W, D]
        mask = self.lineage(parents)
        self.time += 1
        return self.decoder(x, mask, self.mask, self.state)

    def lineage(self, parents: Tensor) -> Tensor | None:
        """Each hypothesis sees itself and its ancestors: [B, 1, W, steps · W]."""
        if self.width == 1:
            return None
        inherited = take(self.ancestors, parents)
        self.ancestors = torch.cat([inherited, self.own.expand(len(parents), -1, -1)], dim=-1)
        return self.ancestors[:, None]

    def keep(self, rows: Tensor) -> None:
        """Forgets the sentences that are finished."""
        self.mask = None if self.mask is None else self.mask[rows]
        self.state.select(rows)
        self.ancestors = self.ancestors[rows]


def take(x: Tensor, index: Tensor) -> Tensor:
    """Rows of each sentence: [B, N, T], [B, M] → [B, M, T]."""
    return x.gather(1, index[:, :, None].expand(-1, -1, x.shape[-1]))


def added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """To be added to the scores: what the kernel would make of the mask in each call."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, -torch.inf)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """PyTorch's kernel is made for many queries. On a CPU, one for each of many sentences takes
    half the time as two products and a softmax, where keys and values lie in one block.
    """
    if query.shape[2] > 1 or len(query) == 1 or query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    scores = query * query.shape[-1] ** -0.5 @ key.transpose(-2, -1)
    return (scores if mask is None else scores + mask).softmax(-1) @ value


@dataclass(frozen=True)
class Norm:
    """A residual's norm: before the sublayer or after the sum."""

    pre: bool
    options: tuple[Any, ...]

    @classmethod
    def of(cls, residual: Residual) -> Norm:
        norm = residual.norm
        return cls(residual.pre, (norm.normalized_shape, norm.weight, norm.bias, norm.eps))

    def enter(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, *self.options) if self.pre else x

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y if self.pre else F.layer_norm(x + y, *self.options)


@dataclass(frozen=True)
class StepLayer:
    """What one layer multiplies with."""

    self_norm: Norm
    query_key_value: Product
    self_output: Product
    cross_norm: Norm
    cross_query: Product
    cross_output: Product
    feed_forward_norm: Norm
    expand: Product
    contract: Product


class StepDecoder:
    """Called with new vectors [B, W, D] and the state that remembers what came before them."""

    def __init__(self, model: Transformer, *, rows: int) -> None:
        def weights(*parts: Any) -> Product:
            matrix = torch.cat([part.weight.flatten(1) for part in parts])
            bias = None if parts[0].bias is None else torch.cat([part.bias for part in parts])
            return product(matrix, bias, rows)

        layers: Any = model.decoder.layers
        self.layers: list[StepLayer] = []
        for layer in layers:
            own, across, forward = layer.self_attention, layer.cross_attention, layer.feed_forward
            self.layers.append(
                StepLayer(
                    self_norm=Norm.of(layer.self_residual),
                    query_key_value=weights(own.query, own.key, own.value),
                    self_output=weights(own.output),
                    cross_norm=Norm.of(layer.cross_residual),
                    cross_query=weights(across.query),
                    cross_output=weights(across.output),
                    feed_forward_norm=Norm.of(layer.feed_forward_residual),
                    expand=weights(forward.expand),
                    contract=weights(forward.contract),
                )
            )
        first = layers[0]  # all are alike
        self.n_heads, self.activation = first.self_attention.n_heads, first.feed_forward.activation
        self.attentions = [layer.cross_attention for layer in layers]
        self.final_norm, self.generator = model.decoder.norm, weights(model.generator)

    def remember(self, memory: Tensor, state: DecoderState) -> None:
        """Computes cross-attention's keys and values, once for all steps."""
        for attention, remembered in zip(self.attentions, state.layers, strict=True):
            attention.keys_and_values(memory, memory, cache := remembered.memory)
            cache.keys, cache.values = cache.keys.contiguous(), cache.values.contiguous()

    def __call__(
        self, x: Tensor, mask: Tensor | None, memory_mask: Tensor | None, state: DecoderState
    ) -> Tensor:
        """[B, W, D] → logits [B, W, V]. Masks as everywhere, but none of their rows is empty."""
        merge, (batch, width, d_model) = MultiHeadAttention.merge, x.shape
        heads = (batch, width, -1, self.n_heads, d_model // self.n_heads)
        for layer, remembered in zip(self.layers, state.layers, strict=True):
            y = layer.query_key_value(layer.self_norm.enter(x))
            q, k, v = y.view(heads).permute(2, 0, 3, 1, 4).contiguous()  # each [B, H, W, K]
            k, v = remembered.past.append(k, v)
            y = attend(q, k, v, mask)
            x = layer.self_norm.leave(x, layer.self_output(merge(y)))

            y = layer.cross_query(layer.cross_norm.enter(x))
            q, k, v = y.view(heads)[:, :, 0].transpose(1, 2), *remembered.memory.read()
            y = attend(q, k, v, memory_mask)
            x = layer.cross_norm.leave(x, layer.cross_output(merge(y)))

            y = layer.expand(layer.feed_forward_norm.enter(x))
            y = layer.contract(self.activation(y))
            x = layer.feed_forward_norm.leave(x, y)
        x = x if self.final_norm is None else self.final_norm(x)
        return self.generator(x)
