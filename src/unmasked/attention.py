"""Attention (sections 3.2.1 and 3.2.2): look at everything, take what fits.

Shapes: B batch, H heads, Q queries, S keys, D model width, K = D / H the width of a head.
Weights are not returned but collected, by a list that is passed as `maps`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .errors import checked, contracts
from .fast.dropout import dropout as drop
from .fast.fused import fused_attention


@checked(contracts.attention)
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
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    # The fused kernels of a CPU have no dropout: PyTorch would compute the weights there too.
    if maps is None and not (dropout and query.device.type == "cpu"):
        return fused_attention(query, key, value, mask, dropout, scale)
    weights = attention_weights(query, key, mask, scale=scale).to(value.dtype)
    if maps is not None:
        maps.append(weights)
    return drop(weights, dropout) @ value


@checked(contracts.attention_weights)
def attention_weights(
    query: Tensor, key: Tensor, mask: Tensor | None = None, *, scale: float | None = None
) -> Tensor:
    """softmax(query keyᵀ / √K): [..., Q, K], [..., S, K] → [..., Q, S]."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return masked_softmax(scaled_scores(query, key, scale), mask)


def scaled_scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """query keyᵀ · scale: [..., Q, S]. From float16 in float32: a score may exceed 65,504."""
    if query.dtype != torch.float16:
        return (query * scale) @ key.transpose(-2, -1)
    with torch.autocast(query.device.type, enabled=False):
        return (query.float() * scale) @ key.float().transpose(-2, -1)


@checked(contracts.masked_softmax)
def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Scores → weights: rows sum to one, or to zero where nothing may be attended to."""
    if mask is None:
        return scores.softmax(-1)
    lowest = torch.finfo(scores.dtype).min  # finite: a row of minus infinities would become NaN
    return scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0.0)


@checked(contracts.additive_attention)
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

    @checked(contracts.make_multi_head)
    def __init__(
        self, d_model: int, n_heads: int, *, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        self.d_model, self.n_heads, self.dropout = d_model, n_heads, dropout
        self.query = nn.Linear(d_model, d_model, bias=bias)
        self.key = nn.Linear(d_model, d_model, bias=bias)
        self.value = nn.Linear(d_model, d_model, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)

    @checked(contracts.multi_head)
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
        q = self.split(self.query(query))  # [B, H, Q, K]
        k, v = self.keys_and_values(key, key if value is None else value, cache)
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

    @checked(contracts.make_cache)
    def __init__(self, capacity: int = 32, *, fixed: bool = False) -> None:
        self.capacity, self.fixed, self.length = capacity, fixed, 0
        self.keys, self.values = torch.empty(0), torch.empty(0)  # [B, H, capacity, K]

    @property
    def filled(self) -> bool:
        return self.fixed and self.length > 0

    @checked(contracts.read_cache)
    def read(self) -> tuple[Tensor, Tensor]:
        """All keys and values, twice [B, H, length, K]."""
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    @checked(contracts.append_to_cache)
    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Adds [B, H, n, K] and returns all that is there now: [B, H, length, K]."""
        past, length = self.length, self.length + keys.shape[2]
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
