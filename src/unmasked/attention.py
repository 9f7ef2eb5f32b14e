"""Attention (sections 3.2.1 and 3.2.2): look at everything, take what fits.

Shapes: B batch, H heads, Q queries, S keys, D model width, K = D / H the width of a head.
"""

from __future__ import annotations

import math
from typing import Literal, TypeVar, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .cache import KeyValueCache
from .dropout import dropout as drop
from .validation import (
    check_at_least,
    check_heads_divide,
    check_mask,
    check_probability,
    check_type,
    check_vectors,
    invalid,
    shape,
)

W = TypeVar("W")


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Scores → weights: rows sum to one, or to zero where nothing may be attended to."""
    if mask is None:
        return scores.softmax(-1)
    check_mask("mask", mask, scores.shape)
    lowest = torch.finfo(scores.dtype).min  # finite: a row of minus infinities would become NaN
    return scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0.0)


@overload
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    need_weights: Literal[False] = False,
    *,
    dropout: float = 0.0,
    scale: float | None = None,
) -> Tensor: ...
@overload
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    need_weights: Literal[True],
    dropout: float = 0.0,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]: ...
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = False,
    *,
    dropout: float = 0.0,
    scale: float | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(query keyᵀ / √K) value: [..., Q, K], [..., S, K], [..., S, V] → [..., Q, V].

    With `need_weights` the weights [..., Q, S] come too (before dropout: their rows sum to one).
    `scale` replaces 1/√K. A query that may attend to nothing gets zeros.
    """
    check_heads(query, key, value)
    check_probability("dropout", dropout)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    # The fused kernels of a CPU have no dropout: PyTorch would take the long way round as well.
    if not need_weights and not (dropout and query.device.type == "cpu"):
        return fused_attention(query, key, value, mask, dropout, scale)
    weights = masked_softmax(scaled_scores(query, key, scale), mask).to(value.dtype)
    output = drop(weights, dropout) @ value
    return (output, weights) if need_weights else output


def scaled_scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """query keyᵀ · scale: [..., Q, S]. From float16 in float32: a score may exceed 65,504."""
    if query.dtype != torch.float16:
        return (query * scale) @ key.transpose(-2, -1)
    with torch.autocast(query.device.type, enabled=False):
        return (query.float() * scale) @ key.float().transpose(-2, -1)


def slow_backward(query: Tensor, key: Tensor) -> bool:
    """On a CPU the kernel's backward for short rows of bfloat16 takes six times float32's."""
    halves = query.dtype == torch.bfloat16 and query.device.type == "cpu"
    return halves and query.requires_grad and key.shape[-2] <= 256


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scale: float
) -> Tensor:
    """The same through PyTorch's kernels, which never store the [Q, S] weights."""
    if slow_backward(query, key):
        with torch.autocast(query.device.type, enabled=False):
            q, k, v = query.float(), key.float(), value.float()
            return fused_attention(q, k, v, mask, dropout, scale).to(value.dtype)
    if mask is None:
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, scale=scale)
    batch = query.shape[:-2]
    if key.shape[:-2] != batch:
        batch = torch.broadcast_shapes(batch, key.shape[:-2])  # type: ignore[no-untyped-call]
    check_mask("mask", mask, (*batch, query.shape[-2], key.shape[-2]))
    mask = mask.view(1, -1) if mask.dim() < 2 else mask
    # Kernels differ in what they do with rows that see nothing, so none of them gets to see one.
    sees = mask.any(-1, keepdim=True)
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask | ~sees, dropout_p=dropout, scale=scale
    )
    return output.masked_fill(~sees, 0.0)


def additive_attention(
    query: Tensor, key: Tensor, value: Tensor, vector: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Scores from a small network instead of a product: vector · tanh(query + key).

    Query and key are already projected to the width of `vector` (Bahdanau et al., 2015). Returns
    the output [..., Q, V] and the weights [..., Q, S].
    """
    check_heads(query, key, value)
    if vector.shape != query.shape[-1:]:
        fix = "it weighs the columns of query + key"
        raise invalid("vector", f"shape [{query.shape[-1]}]", shape(vector), fix)
    hidden = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))  # [..., Q, S, K]
    weights = masked_softmax(hidden @ vector, mask)
    return weights @ value, weights


def pair(result: Tensor | tuple[Tensor, W]) -> tuple[Tensor, W | None]:
    """An output, alone or with its weights → always both."""
    return result if isinstance(result, tuple) else (result, None)


def check_heads(query: Tensor, key: Tensor, value: Tensor) -> None:
    for name, x in (("query", query), ("key", key), ("value", value)):
        check_type(name, x, Tensor)
        if x.dim() < 2:
            raise invalid(name, "rank 2 or more, [..., length, width]", shape(x), "add a dimension")
    if query.shape[-1] != key.shape[-1]:
        fix = "their dot product needs one width"
        raise invalid("key", f"the query's width {query.shape[-1]}", key.shape[-1], fix)
    if key.shape[-2] != value.shape[-2]:
        fix = "each key has one value"
        raise invalid("value", f"as many values as keys, {key.shape[-2]}", value.shape[-2], fix)


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own slice of the width (section 3.2.2).

    `key` defaults to the query (self-attention) and `value` to the key. Returns [B, Q, D], and
    with `need_weights` also the weights of every head, [B, H, Q, S].
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        key_width: int | None = None,
        value_width: int | None = None,
    ) -> None:
        super().__init__()
        check_heads_divide(d_model, n_heads)
        check_probability("dropout", dropout)
        key_width = d_model if key_width is None else key_width
        value_width = d_model if value_width is None else value_width
        check_at_least("key_width", key_width, 1)
        check_at_least("value_width", value_width, 1)
        self.d_model, self.n_heads, self.dropout = d_model, n_heads, dropout
        self.query = nn.Linear(d_model, d_model, bias=bias)
        self.key = nn.Linear(key_width, d_model, bias=bias)
        self.value = nn.Linear(value_width, d_model, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self,
        query: Tensor,
        *,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        check_vectors("query", query, self.d_model)
        q = self.split(self.query(query))  # [B, H, Q, K]
        if cache is not None and cache.filled:
            k, v = cache.read()
        else:
            key = query if key is None else key
            k, v = self.keys_and_values(key, key if value is None else value, len(query))
            if cache is not None:
                k, v = cache.append(k, v)
        dropout = self.dropout if self.training else 0.0
        if not need_weights:
            output: Tensor = self.output(self.merge(attention(q, k, v, mask, dropout=dropout)))
            return output
        attended, weights = attention(q, k, v, mask, need_weights=True, dropout=dropout)
        return self.output(self.merge(attended)), weights

    def keys_and_values(self, key: Tensor, value: Tensor, batch: int) -> tuple[Tensor, Tensor]:
        """Projected and split over the heads: twice [B, H, S, K]."""
        check_vectors("key", key, self.key.in_features, batch)
        check_vectors("value", value, self.value.in_features, batch)
        return self.split(self.key(key)), self.split(self.value(value))

    def split(self, x: Tensor) -> Tensor:  # [B, S, D] → [B, H, S, K]
        return x.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)

    @staticmethod
    def merge(x: Tensor) -> Tensor:  # [B, H, Q, K] → [B, Q, D]
        return x.transpose(1, 2).flatten(2)
