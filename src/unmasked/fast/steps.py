"""One step of decoding after the other, for several hypotheses of several sentences.

A step is so little work that calling modules and checking shapes would take as long as computing.
Here the weights are laid out for short products, query, key and value of self-attention in one
matrix, and kept so from search to search. For plain models only (`guard.is_plain`);
`search.Cached` does the same for any model.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attention import MultiHeadAttention, scaled_scores
from ..decoder import DecoderLayer
from ..encoder import Residual
from ..kernels import take
from ..tokens import PADDING
from ..transformer import Transformer
from .packed import Layout, packed_encode
from .products import kept, product


class FastSteps:
    """One query a hypothesis, one cache a sentence.

    The W hypotheses of a sentence are W queries into one cache that holds every step of all of
    them. Who descends from whom is a mask, so that reordering hypotheses moves no key or value.
    """

    def __init__(self, model: Transformer, source: Tensor, width: int, steps: int) -> None:
        self.rows, self.width, self.time = len(source) * width, width, 0
        self.own = torch.eye(width, dtype=torch.bool, device=source.device)
        self.ancestors = source.new_zeros(len(source), width, 0, dtype=torch.bool)
        real = source != PADDING  # as `padding_mask` says; that nothing looks ahead needs no mask
        layout, rows = Layout(real), self.rows
        memory = packed_encode(model, source, layout)
        mask = None if layout.full else added(real[:, None, None], memory.dtype)
        layers: Any = model.decoder.layers
        self.layers: list[StepLayer] = []
        for layer in layers:
            module = layer.cross_attention
            across: Across
            if FoldedCrossAttention.fits(module, memory, layout):
                across = FoldedCrossAttention(module, memory, rows)
            else:
                across = CrossAttention(module, memory, layout, mask, rows)
            past = Past(min(steps, 128) * width)  # memory for most sentences
            self.layers.append(StepLayer(layer, past, across, rows))
        self.embedding, self.tokens = model.target_embedding, model.target_embedding.tokens.weight
        positions: Any = model.target_embedding.positions
        self.positions = positions.rows(min(steps, len(positions.table))).to(self.tokens.dtype)
        self.norm = Norm(model.decoder.norm, pre=True)
        self.generator = kept(model.generator, rows=rows, hidden=PADDING)

    def step(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """The newest tokens and the hypotheses they continue, both [B, W] → logits [B, W, V]."""
        x = self.embed(tokens.view(()) if self.rows == 1 else tokens.flatten())
        mask = self.lineage(parents)
        self.time += 1
        for layer in self.layers:
            x = layer(x, tokens.shape, mask)
        return self.generator(self.norm.enter(x)).view(*tokens.shape, -1)

    def embed(self, tokens: Tensor) -> Tensor:
        """B · W vectors, [B · W, D]; where there is one row from the start, just [D]."""
        if self.time >= len(self.positions):
            rows = tokens.view(-1, 1)
            return self.embedding(rows, self.time).view(*tokens.shape, -1)
        x = F.embedding(tokens, self.tokens)
        return torch.add(self.positions[self.time], x, alpha=self.embedding.scale)

    def lineage(self, parents: Tensor) -> Tensor | None:
        """Each hypothesis sees itself and its ancestors: [B, 1, W, steps · W]."""
        if self.width == 1:
            return None
        inherited = take(self.ancestors, parents)
        self.ancestors = torch.cat([inherited, self.own.expand(len(parents), -1, -1)], dim=-1)
        return self.ancestors[:, None]

    def keep(self, rows: Tensor) -> None:
        """Forgets the sentences that are finished."""
        self.ancestors = self.ancestors[rows]
        for layer in self.layers:
            layer.keep(rows)


class StepLayer:
    """Called with the new vectors, B sentences of W; remembers the keys and values of the old."""

    def __init__(self, layer: DecoderLayer, past: Past, across: Across, rows: int) -> None:
        own, feed_forward = layer.self_attention, layer.feed_forward
        self.past, self.n_heads = past, own.n_heads
        self.self_norm = Norm.of(layer.self_residual)
        self.query_key_value = kept(own.query, own.key, own.value, rows=rows)
        self.self_output = kept(own.output, rows=rows)
        self.cross_norm = Norm.of(layer.cross_residual)
        self.across = across
        self.feed_forward_norm = Norm.of(layer.feed_forward_residual)
        self.expand = kept(feed_forward.expand, rows=rows)
        self.activation = feed_forward.activation
        self.contract = kept(feed_forward.contract, rows=rows)

    def __call__(self, x: Tensor, shape: torch.Size, mask: Tensor | None) -> Tensor:
        y = self.query_key_value(self.self_norm.enter(x))
        y = split(y, shape, 3, self.n_heads)
        keys, values = self.past.append(y[1:])
        y = attend(y[0], keys, values, mask)
        y = self.self_output(merge(y, x.shape))
        x = self.self_norm.leave(x, y)

        y = self.across(self.cross_norm.enter(x), shape)
        x = self.cross_norm.leave(x, y)

        y = self.contract(self.activation(self.expand(self.feed_forward_norm.enter(x))))
        return self.feed_forward_norm.leave(x, y)

    def keep(self, rows: Tensor) -> None:
        self.past.keep(rows)
        self.across.keep(rows)


# --- Cross-attention --------------------------------------------------------------------------


class CrossAttention:
    """Keys and values of the memory are computed once, for all steps."""

    def __init__(
        self, module: MultiHeadAttention, memory: Tensor, layout: Layout, mask: Tensor | None,
        rows: int,
    ) -> None:  # fmt: skip
        self.query = kept(module.query, rows=rows)
        self.output = kept(module.output, rows=rows)
        self.keys, self.values = (
            module.split(layout.unpack(part(memory))).contiguous()  # [B, H, S, K]
            for part in (module.key, module.value)
        )
        self.n_heads, self.mask = module.n_heads, mask

    def __call__(self, x: Tensor, shape: torch.Size) -> Tensor:
        q = split(self.query(x), shape, 1, self.n_heads)[0]
        return self.output(merge(attend(q, self.keys, self.values, self.mask), x.shape))

    def keep(self, rows: Tensor) -> None:
        self.keys, self.values = self.keys[rows], self.values[rows]
        self.mask = None if self.mask is None else self.mask[rows]


class FoldedCrossAttention:
    """For one short sentence: a product, a softmax, a product.

    Scores are (x W_Q + b_Q) kᵀ = x (W_Q kᵀ) + b_Q kᵀ, and all but x is the same in every step. So
    the query's matrix and the keys become one matrix, [D, H · S], the values and the output's
    matrix another.
    """

    def __init__(self, module: MultiHeadAttention, memory: Tensor, rows: int) -> None:
        self.n_heads = module.n_heads
        into, out_of = module.query, module.output
        k, v = (module.split(part(memory))[0] for part in (module.key, module.value))  # [H, S, K]
        k = k * k.shape[-1] ** -0.5
        query = into.weight.unflatten(0, (self.n_heads, -1))  # [H, K, D]
        output = out_of.weight.t().unflatten(0, (self.n_heads, -1))  # [H, K, D]
        bias = None
        if into.bias is not None:
            bias = (k @ into.bias.view(self.n_heads, -1, 1)).flatten()  # [H · S]
        self.scores = product((k @ query).flatten(0, 1), bias, rows)
        self.output = product((v @ output).flatten(0, 1).t(), out_of.bias, rows)

    @staticmethod
    def fits(module: MultiHeadAttention, memory: Tensor, layout: Layout) -> bool:
        """Where the new matrices are not much larger than the old ones, and nothing is rounded."""
        short = module.n_heads * memory.shape[1] <= 2 * module.d_model
        return layout.batch == 1 and short and memory.dtype in (torch.float32, torch.float64)

    def __call__(self, x: Tensor, shape: torch.Size) -> Tensor:
        scores = self.scores(x)
        weights = scores.view(*shape, self.n_heads, -1).softmax(-1)  # [1, W, H, S]
        return self.output(weights.view(scores.shape))

    def keep(self, rows: Tensor) -> None:
        """There is one sentence: as long as it goes on, nothing is to be forgotten."""


Across = CrossAttention | FoldedCrossAttention


# --- Parts ------------------------------------------------------------------------------------


class Past:
    """Keys and values so far in one tensor: a step is one copy, in a `KeyValueCache` two."""

    def __init__(self, room: int) -> None:
        self.room, self.length = room, 0
        self.both = torch.empty(0)  # [2, B, H, room, K]

    def append(self, new: Tensor) -> tuple[Tensor, ...]:
        """The newest [2, B, H, W, K] → keys and values of all steps, each [B, H, length, K]."""
        start, width = self.length, new.shape[3]
        self.length += width
        if start == 0:
            self.both = new.new_empty(*new.shape[:3], max(self.room, width), new.shape[4])
        elif self.length > self.both.shape[3]:
            self.both = torch.cat([self.both, torch.empty_like(self.both)], dim=3)
        self.both.narrow(3, start, width).copy_(new)
        return self.both.narrow(3, 0, self.length).unbind()

    def keep(self, rows: Tensor) -> None:
        self.both = self.both[:, rows]


class Norm:
    """A residual's norm: before the sublayer or after the sum."""

    options: tuple[Any, ...]

    def __init__(self, norm: nn.LayerNorm | None, pre: bool) -> None:
        self.pre, self.options = pre and norm is not None, ()
        if norm is not None:
            self.options = norm.normalized_shape, norm.weight, norm.bias, norm.eps

    @classmethod
    def of(cls, residual: Residual) -> Norm:
        return cls(residual.norm, residual.pre)

    def enter(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, *self.options) if self.pre else x

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y if self.pre else torch.layer_norm(x + y, *self.options)


def split(y: Tensor, shape: torch.Size, parts: int, heads: int) -> Tensor:
    """B · W rows (or one vector), each with H heads of several parts → [parts, B, H, W, K]."""
    batch, width = shape
    if width == 1:
        return y.view(batch, parts, heads, 1, -1).transpose(0, 1)
    return y.view(batch, width, parts, heads, -1).permute(2, 0, 3, 1, 4)


def merge(y: Tensor, shape: torch.Size) -> Tensor:
    """[B, H, W, K] → B · W rows, or one vector."""
    return (y if y.shape[2] == 1 else y.transpose(1, 2)).reshape(shape)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """PyTorch's kernel is made for many queries. On a CPU, one for each of many sentences takes
    half the time as two products and a softmax, where keys and values lie in one block.
    """
    if query.shape[0] == 1 or query.shape[2] > 1 or query.device.type != "cpu":
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    scores = scaled_scores(query, key, query.shape[-1] ** -0.5)
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return weights.to(value.dtype) @ value


def added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """To be added to the scores: what the kernel would make of the mask in each call."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, -torch.inf)
