"""Attention (sections 3.2.1 and 3.2.2): look at everything, take what fits.

Shapes: B batch, H heads, Q queries, S keys, D model width, K = D / H the width of a head.
Weights are not returned but collected, by a list that is passed as `maps`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .errors import (
    check_attention,
    check_heads,
    check_mask,
    check_probability,
    check_vectors,
    check_whole,
    invalid,
    shape,
)
from .kernels import dropout as drop
from .kernels import fused_attention


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    dropout: float = 0.0,
    scale: float | None = None,
    maps: list[Tensor] | None = None,
) -> Tensor:
    """softmax(query keyᵀ / √K) value: [..., Q, K], [..., S, K], [..., S, V] → [..., Q, V].

    `scale` replaces 1/√K. A query that may attend to nothing gets zeros. With `maps` the weights
    [..., Q, S] are added to that list (before dropout: their rows sum to one).
    """
    check_mask("mask", mask, check_attention(query, key, value, dropout))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    # The fused kernels of a CPU have no dropout: PyTorch would compute the weights there too.
    if maps is None and not (dropout and query.device.type == "cpu"):
        return fused_attention(query, key, value, mask, dropout, scale)
    weights = attention_weights(query, key, mask, scale=scale).to(value.dtype)
    if maps is not None:
        maps.append(weights)
    return drop(weights, dropout) @ value


def attention_weights(
    query: Tensor, key: Tensor, mask: Tensor | None = None, *, scale: float | None = None
) -> Tensor:
    """softmax(query keyᵀ / √K): [..., Q, K], [..., S, K] → [..., Q, S]."""
    check_mask("mask", mask, check_attention(query, key))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return masked_softmax(scaled_scores(query, key, scale), mask)


def scaled_scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """query keyᵀ · scale: [..., Q, S]. From float16 in float32: a score may exceed 65,504."""
    if query.dtype != torch.float16:
        return (query * scale) @ key.transpose(-2, -1)
    with torch.autocast(query.device.type, enabled=False):
        return (query.float() * scale) @ key.float().transpose(-2, -1)


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Scores → weights: rows sum to one, or to zero where nothing may be attended to."""
    check_mask("mask", mask, scores.shape)
    if mask is None:
        return scores.softmax(-1)
    lowest = torch.finfo(scores.dtype).min  # finite: a row of minus infinities would become NaN
    return scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0.0)


def additive_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    vector: Tensor,
    mask: Tensor | None = None,
    *,
    maps: list[Tensor] | None = None,
) -> Tensor:
    """Scores from a small network instead of a product: vector · tanh(query + key).

    Query and key are already projected to the width of `vector` (Bahdanau et al., 2015).
    """
    check_mask("mask", mask, check_attention(query, key, value))
    if vector.shape != query.shape[-1:]:
        fix = "it weighs the columns of query + key"
        raise invalid("vector", f"shape [{query.shape[-1]}]", shape(vector), fix)
    hidden = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))  # [..., Q, S, K]
    weights = masked_softmax(hidden @ vector, mask)
    if maps is not None:
        maps.append(weights)
    return weights @ value


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own slice of the width (section 3.2.2).

    `key` defaults to the query (self-attention) and `value` to the key. A `cache` remembers keys
    and values from call to call.
    """

    def __init__(
        self, d_model: int, n_heads: int, *, dropout: float = 0.0, bias: bool = True
    ) -> None:
        check_heads(d_model, n_heads)
        check_probability("dropout", dropout)
        super().__init__()
        self.d_model, self.n_heads, self.dropout = d_model, n_heads, dropout
        self.query = nn.Linear(d_model, d_model, bias=bias)
        self.key = nn.Linear(d_model, d_model, bias=bias)
        self.value = nn.Linear(d_model, d_model, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self,
        query: Tensor,
        *,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """[B, Q, D] → [B, Q, D]; the weights of every head are [B, H, Q, S]."""
        key = query if key is None else key
        value = key if value is None else value
        self.check(query, key, value, mask, cache)
        q = self.split(self.query(query))  # [B, H, Q, K]
        k, v = self.keys_and_values(key, value, cache)
        dropout = self.dropout if self.training else 0.0
        return self.output(self.merge(attention(q, k, v, mask, dropout=dropout, maps=maps)))

    def keys_and_values(
        self, key: Tensor, value: Tensor, cache: KeyValueCache | None = None
    ) -> tuple[Tensor, Tensor]:
        """Projected and split over the heads, with those of the cache before them: [B, H, S, K]."""
        if cache is not None and cache.filled:
            return cache.read()
        k, v = self.split(self.key(key)), self.split(self.value(value))
        return (k, v) if cache is None else cache.append(k, v)

    def check(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        cache: KeyValueCache | None,
    ) -> None:
        check_vectors("query", query, self.d_model)
        batch, queries, _ = query.shape
        past = 0 if cache is None else cache.check(batch)
        keys = past
        if cache is None or not cache.filled:
            check_vectors("key", key, self.d_model, batch)
            check_vectors("value", value, self.d_model, batch)
            keys = past + key.shape[1]
        check_mask("mask", mask, (batch, self.n_heads, queries, keys))

    def split(self, x: Tensor) -> Tensor:  # [B, S, D] → [B, H, S, K]
        return x.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)

    @staticmethod
    def merge(x: Tensor) -> Tensor:  # [B, H, Q, K] → [B, Q, D]
        return x.transpose(1, 2).flatten(2)


class KeyValueCache:
    """The keys and values seen so far, so that a new token needs only its own.

    Memory is taken ahead of need and doubled when it runs out: growing costs no copy at each step.
    A `fixed` cache is filled once (by the encoder's memory) and then only read.
    """

    def __init__(self, capacity: int = 32, *, fixed: bool = False) -> None:
        check_whole("capacity", capacity)
        self.capacity, self.fixed, self.length = capacity, fixed, 0
        self.keys, self.values = torch.empty(0), torch.empty(0)  # [B, H, capacity, K]

    @property
    def filled(self) -> bool:
        return self.fixed and self.length > 0

    def read(self) -> tuple[Tensor, Tensor]:
        """All keys and values, twice [B, H, length, K]."""
        if self.length == 0:
            fix = "append some first"
            raise invalid("cache", "keys and values to read", "an empty cache", fix)
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Adds [B, H, n, K] and returns all that is there now: [B, H, length, K]."""
        past, length = self.length, self.length + keys.shape[2]
        if past and self.keys.shape[:2] != keys.shape[:2]:
            expected = f"[batch, heads] = {list(self.keys.shape[:2])} as in the cache"
            fix = "begin a new cache for other sentences"
            raise invalid("keys", expected, list(keys.shape[:2]), fix)
        if self.fixed or (torch.is_grad_enabled() and keys.requires_grad):
            if past:  # a new tensor each time: a gradient needs the past as it was
                keys = torch.cat([self.keys[:, :, :past], keys], dim=2)
                values = torch.cat([self.values[:, :, :past], values], dim=2)
            self.keys, self.values, self.length = keys, values, length
            return keys, values
        if past == 0 or length > self.keys.shape[2]:
            self.capacity = max(length, 2 * self.capacity if past else self.capacity)
            self.keys, self.values = self.grown(self.keys, keys), self.grown(self.values, values)
        self.keys[:, :, past:length] = keys
        self.values[:, :, past:length] = values
        self.length = length
        return self.read()

    def check(self, batch: int, name: str = "cache") -> int:
        """That it is of as many sentences; how many keys are in it."""
        if self.length and len(self.keys) != batch:
            fix = "begin with a new one for other sentences"
            raise invalid(name, f"a batch of {batch}", len(self.keys), fix)
        return self.length

    def grown(self, old: Tensor, like: Tensor) -> Tensor:
        """`capacity` places, the first of them as they were."""
        new = like.new_empty(*like.shape[:2], self.capacity, like.shape[3])
        if old.numel():
            new[:, :, : old.shape[2]] = old
        return new

    def select(self, rows: Tensor) -> None:
        """Keeps only these rows of the batch."""
        if self.length:
            self.keys, self.values = self.keys[rows], self.values[rows]


# --- Maps -------------------------------------------------------------------------------------


class AttentionMaps(NamedTuple):
    """The weights of every layer, each [B, H, queries, keys]."""

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]

    @classmethod
    def empty(cls) -> AttentionMaps:
        """To be passed as `maps` and filled on the way."""
        return cls([], [], [])


class Mapped(nn.Module):
    """A model whose call says what it attended to: `model(…, need_weights=True)` → output, maps.

    Its `forward` takes an `AttentionMaps` as `maps`, and returns the output alone.
    """

    def __call__(self, *args: Any, need_weights: bool = False, **options: Any) -> Any:
        if not need_weights:
            return super().__call__(*args, **options)
        maps = AttentionMaps.empty()
        return super().__call__(*args, maps=maps, **options), maps
