"""Computes attention, in one head and in several (the paper's sections 3.2.1 and 3.2.2).

Shapes: B batch, H heads, T queries, S keys, D model width, d_k = D / H the width of a head.
Only `attention_weights` returns weights; elsewhere a list that is passed as `maps` collects them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .errors import (
    invalid,
    require_attention,
    require_heads,
    require_look,
    require_mask,
    require_probability,
    require_vectors,
    shape,
)
from .kernels import dropout as drop
from .kernels import fused_attention, quicker_by_hand
from .layers import Linear, laid_out


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
    scale: float | None = None,
    maps: list[Tensor] | None = None,
    check: bool = True,
) -> Tensor:
    """Computes softmax(query keyᵀ · scale + bias) value, with 1/√d_k as the default scale.

    [..., T, d_k], [..., S, d_k], [..., S, d_v] → [..., T, d_v]. With `sinks` [H], each softmax has
    one more score, to which no value belongs. A query that may attend to nothing gets zeros. The
    list `maps` receives the weights before dropout, [..., T, S]. `check=False` checks nothing.
    """
    if check:
        require_mask("mask", mask, require_attention(query, key, value, dropout))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if maps is None and sinks is None and not quicker_by_hand(query, dropout):
        return fused_attention(query, key, value, mask, bias, dropout, scale)
    scores = scaled_scores(query, key, scale)
    scores = scores if bias is None else scores + bias
    if sinks is None:
        weights = masked_softmax(scores, mask).to(value.dtype)
    else:
        sink = sinks.to(scores)[:, None, None].expand(*scores.shape[:-1], 1)
        seen = None if mask is None else F.pad(mask, (0, 1), value=True)
        weights = masked_softmax(torch.cat([scores, sink], -1), seen)[..., :-1].to(value.dtype)
    if maps is not None:
        maps.append(weights)
    return drop(weights, dropout) @ value


def attention_weights(
    query: Tensor, key: Tensor, mask: Tensor | None = None, *, scale: float | None = None
) -> Tensor:
    """Returns softmax(query keyᵀ / √d_k), [..., T, S], from [..., T, d_k] and [..., S, d_k]."""
    maps: list[Tensor] = []
    attention(query, key, key, mask, scale=scale, maps=maps)
    return maps[0]


def scaled_scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Returns the scores query keyᵀ · scale, [..., T, S], float32 for float16, which overflows."""
    if query.dtype != torch.float16:
        return (query * scale) @ key.transpose(-2, -1)
    with torch.autocast(query.device.type, enabled=False):
        return (query.float() * scale) @ key.float().transpose(-2, -1)


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Returns the softmax of scores [..., T, S] under a mask; a row that it hides is all zeros."""
    require_mask("mask", mask, scores.shape)
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
    """Computes attention by scores vector · tanh(query + key), vector [d_k] (Bahdanau, 2015)."""
    require_mask("mask", mask, require_attention(query, key, value))
    if vector.shape != query.shape[-1:]:
        fix = "it weighs the columns of query + key"
        raise invalid("vector", f"shape [{query.shape[-1]}]", shape(vector), fix)
    hidden = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))  # [..., T, S, d_k]
    weights = masked_softmax(hidden @ vector, mask)
    if maps is not None:
        maps.append(weights)
    return weights @ value


class Look:
    """A look is given to an attention layer with what it must know of a batch: masks, cached keys.

    This one serves padded batches: rows are [B, T, D], and the mask broadcasts to [B, H, T, S].
    Its subclasses in `looks.py` serve batches without padding and the steps of a search.
    """

    width, columns, time = 1, 1, 0  # hypotheses a sentence, keys a position, earlier positions

    def __init__(self, mask: Tensor | None = None, maps: list[Tensor] | None = None) -> None:
        if mask is not None:
            require_look("mask", mask)
        self.mask, self.maps = mask, maps
        self.bias: Tensor | None = None  # replaces the mask where adding it is quicker

    def recall(self) -> tuple[Tensor, Tensor] | None:
        """Returns keys and values [B, H, S, d_k] that an earlier call cached, or None, as here."""
        return None

    def places(self, x: Tensor) -> Tensor:
        """Returns each query row's position in its sentence, [T], for rotary positions."""
        return torch.arange(x.shape[-2], device=x.device)

    def seen(self, rule: Callable[..., Tensor], queries: int, device: torch.device) -> Tensor:
        """Returns the mask [T, S] that `rule`, such as `masks.causal_mask`, makes for queries."""
        seen = rule(queries // self.width, past=self.time, device=device)
        return seen if self.columns == 1 else seen.repeat_interleave(self.columns, dim=-1)

    def apart(self, q: Tensor, k: Tensor) -> Tensor:
        """Returns key position less query position: q [B, H, T, d_k], k [B, H, S, d_k] → [T, S]."""
        queries = torch.arange(self.time, self.time + q.shape[2] // self.width, device=k.device)
        return torch.arange(k.shape[2], device=k.device) // self.columns - queries[:, None]

    def __call__(self, module: MultiHeadAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attends by projected q, k and v: [B, T, D], [B, S, D], [B, S, D] → [B, T, D]."""
        x = self.attend(module, *self.remember(module.n_heads, q, k, v))
        x = x if x.shape[2] == 1 else x.transpose(1, 2)
        return x.reshape(*q.shape[:-1], -1)

    def remember(self, n_heads: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        """Returns q, k, v split into heads, [B, H, T, d_k]; caches put earlier keys before k."""
        return split(n_heads, None, q, k, v)

    def attend(self, module: MultiHeadAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attends in each head, → [B, H, T, d_k]; query heads share key heads if fewer."""
        mask, bias = (self.mask, None) if self.bias is None else (None, self.bias)
        if module.rule is not None:
            own, bias = self.seen(module.rule, q.shape[2], q.device), None
            mask = own if self.mask is None else self.mask & own
        if module.score_bias is not None:
            own = module.score_bias(self.apart(q, k))
            bias = own if bias is None else bias + own
        if k.shape[1] != q.shape[1]:
            k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
        dropout, maps = module.dropout if module.training else 0.0, self.maps
        given: Any = {"bias": bias, "sinks": module.sinks, "check": False}
        return attention(q, k, v, mask, dropout=dropout, maps=maps, **given)


def heads(x: Tensor, n: int, batch: int | None) -> Tensor:
    """Splits vectors into n heads, [B, T, D] → [B, H, T, d_k]; `batch` is B of flattened rows."""
    batch = x.shape[0] if batch is None else batch
    if x.numel() == batch * x.shape[-1]:  # one row a sentence: nothing to transpose
        return x.reshape(batch, n, 1, -1)
    return x.reshape(batch, -1, n, x.shape[-1] // n).transpose(1, 2)


def split(n_heads: int, batch: int | None, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    """Returns q, k and v split into heads, [B, H, T, d_k]; k and v may have fewer heads than q."""
    groups = n_heads * k.shape[-1] // q.shape[-1]
    return heads(q, n_heads, batch), heads(k, groups, batch), heads(v, groups, batch)


class MultiHeadAttention(nn.Module):
    """This module attends in H heads, slices of the width, and joins the outputs (section 3.2.2).

    A subclass may have narrower `key` and `value` layers (fewer heads), override `project` (rotary
    positions), or set `rule`, a function that makes a second mask, such as `masks.causal_mask`;
    `score_bias`, from key position less query position, [T, S], to a bias [H, T, S]; `sinks` [H].
    """

    def __init__(
        self, d_model: int, n_heads: int, *, dropout: float = 0.0, bias: bool = True
    ) -> None:
        require_heads(d_model, n_heads)
        require_probability("dropout", dropout)
        super().__init__()
        self.d_model, self.n_heads, self.dropout = d_model, n_heads, dropout
        self.query = Linear(d_model, d_model, bias=bias)
        self.key = Linear(d_model, d_model, bias=bias)
        self.value = Linear(d_model, d_model, bias=bias)
        self.output = Linear(d_model, d_model, bias=bias)
        self.rule: Callable[..., Tensor] | None = None
        self.score_bias: Callable[[Tensor], Tensor] | None = None
        self.sinks: Tensor | None = None

    def forward(
        self,
        x: Tensor,
        y: Tensor | None = None,
        look: Look | Tensor | None = None,
        *,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        maps: list[Tensor] | None = None,
    ) -> Tensor:
        """Attends from each row of x to the rows of y, or of x: [B, T, D], [B, S, D] → [B, T, D].

        `key` is another name for y, `mask` for `look`; `value` replaces y where values are made.
        """
        y = key if y is None else y
        y = x if y is None else y
        if not isinstance(look, Look):
            require_vectors("x", x, self.d_model)
            require_vectors("y", y, self.d_model, len(x))
            if value is not None:
                require_vectors("value", value, self.d_model, len(x))
                require_attention(x, y, value)
            look = Look(mask if look is None else look, maps)
        return self.output(look(self, *self.project(x, y, look, value)))

    def project(
        self, x: Tensor, y: Tensor, look: Look, value: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Projects x to queries [B, T, D], y to keys and values [B, S, D] that are not cached."""
        together = laid_out(self, x, "query", "key", "value") if x is y and value is None else None
        if together is not None:
            q, k, v = together(x)
        else:
            q = self.query(x)
            k, v = look.recall() or (self.key(y), self.value(y if value is None else value))
        return q, k, v


# --- Maps -------------------------------------------------------------------------------------


class AttentionMaps(NamedTuple):
    """Attention maps hold each layer's attention weights, [B, H, queries, keys], in three lists."""

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]

    @classmethod
    def empty(cls) -> AttentionMaps:
        """Returns maps of three empty lists, which a model fills when given them as `maps`."""
        return cls([], [], [])
