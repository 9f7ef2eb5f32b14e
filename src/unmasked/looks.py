"""Looks of rows that are no padded batch: packed ones, the newest of a search, a kept memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from . import masks
from .attention import AttentionMaps, Look, MultiHeadAttention, heads, merge, split
from .errors import check_wholes, invalid, shape
from .kernels import take


class Layout:
    """Which positions of a padded batch [B, S] are computed, and the way there and back."""

    def __init__(self, computed: Tensor) -> None:
        self.batch, self.length = computed.shape
        self.index = computed.flatten().nonzero()[:, 0]  # [N]

    def pack(self, x: Tensor) -> Tensor:  # [B, S, D] → [1, N, D]
        return x.flatten(0, 1).index_select(0, self.index)[None]

    def unpack(self, x: Tensor) -> Tensor:  # [1, N, D] → [B, S, D], zeros elsewhere
        rows = x.new_zeros(self.batch * self.length, x.shape[-1])
        return rows.index_copy(0, self.index, x[0]).view(self.batch, self.length, -1)


class Packed(Look):
    """Without padding: rows are [1, N, D], those of all sentences one after the other."""

    def __init__(self, queries: Layout, keys: Layout, mask: Tensor) -> None:
        super().__init__(mask)
        self.queries, self.keys = queries, keys

    def places(self, x: Tensor) -> Tensor:  # noqa: ARG002
        return self.queries.index % self.queries.length

    def __call__(self, module: MultiHeadAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = self.queries.unpack(q), self.keys.unpack(k), self.keys.unpack(v)
        return self.queries.pack(super().__call__(module, q, k, v))


class Stepwise(Look):
    """The newest rows of each sentence, into one cache a sentence, of one layer.

    They are N tokens of one hypothesis, or one of each of W hypotheses: W queries into a cache that
    holds all steps of all of them. Who descends from whom is a mask: no key or value is ever moved.
    """

    def __init__(self, room: int, width: int = 1) -> None:
        super().__init__()
        self.width, self.batch, self.time = width, 1, 0  # tokens of each before the newest
        self.room, self.length = room * width, 0  # of keys
        self.keys = self.values = torch.empty(0)  # [B, H, room, K]

    def places(self, x: Tensor) -> Tensor:
        n = 1 if self.width > 1 else x.shape[-2] if x.dim() > 1 else 1
        return torch.arange(self.time, self.time + n, device=x.device)

    def seen(self, rule: Callable[..., Tensor], queries: int, device: torch.device) -> Tensor:
        seen = rule(1 if self.width > 1 else queries, past=self.time, device=device)
        return seen.repeat_interleave(self.width, dim=-1)

    def apart(self, q: Tensor, k: Tensor) -> Tensor:  # noqa: ARG002
        keys = torch.arange(k.shape[2] // self.width, device=k.device)
        return (keys - keys[self.time :, None]).repeat_interleave(self.width, dim=-1)

    def __call__(self, module: MultiHeadAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows = q.shape
        q, k, v = split(module.n_heads, self.batch, q, k, v)
        start, self.length = self.length, self.length + k.shape[2]
        if self.length > self.room:
            self.room = max(self.length, 2 * self.room)
        self.keys = self.longer(self.keys, k, start)
        self.values = self.longer(self.values, v, start)
        k, v = self.keys.narrow(2, 0, self.length), self.values.narrow(2, 0, self.length)
        return merge(self.attend(module, q, k, v), rows)

    def longer(self, old: Tensor, new: Tensor, start: int) -> Tensor:
        """The old, of which `start` are taken, and the new behind them: [B, H, room, K]."""
        if torch.is_grad_enabled():  # a gradient needs the past as it was
            return torch.cat([old.narrow(2, 0, start), new], dim=2) if start else new
        if start == 0 or old.shape[2] < self.room:
            larger = new.new_empty(*new.shape[:2], self.room, new.shape[3])
            if start:
                larger[:, :, :start] = old[:, :, :start]
            old = larger
        old.narrow(2, start, new.shape[2]).copy_(new)
        return old

    def select(self, rows: Tensor) -> None:
        if self.length:
            self.keys, self.values = self.keys[rows], self.values[rows]


class Remembered(Look):
    """Into a memory whose keys and values are projected once, of one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.batch = 1
        self.kept: tuple[Tensor, Tensor] | None = None

    def recall(self) -> tuple[Tensor, Tensor] | None:
        return self.kept

    def __call__(self, module: MultiHeadAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows = q.shape
        if self.kept is None:
            q, k, v = split(module.n_heads, self.batch, q, k, v)
            self.kept = k.contiguous(), v.contiguous()
        else:
            q = heads(q, module.n_heads, self.batch)
        return merge(self.attend(module, q, *self.kept), rows)

    def select(self, rows: Tensor) -> None:
        if self.kept is not None:
            self.kept = self.kept[0][rows], self.kept[1][rows]


class DecoderState:
    """What a decoder remembers between steps: two looks a layer, in the order of the pass.

    Of each sentence it may follow several hypotheses, `width`: then the batch of tokens is B · W,
    each a step of its own, and `descend` says whom they continue.
    """

    def __init__(self, n_layers: int, capacity: int = 32, width: int = 1) -> None:
        check_wholes(capacity=(capacity, 1), width=(width, 1))
        self.looks = [(Stepwise(capacity, width), Remembered()) for _ in range(n_layers)]
        self.width, self.length = width, 0  # hypotheses of each sentence, tokens of each
        self.real: Tensor | None = None  # [B, 1, 1, length]: the past's padding mask
        self.ancestors: Tensor | None = None  # [B, W, length · W]: among all that was written
        self.source_mask: Tensor | None = None
        self.generated = False  # by a search: tokens need no check, and none of them is padding
        self.rank = 3  # of rows in the decoder: fewer dimensions cost less to carry

    def descend(self, parents: Tensor) -> None:
        """Which of the W hypotheses so far each of the next ones continues: [B, W]."""
        new = torch.eye(self.width, dtype=torch.bool, device=parents.device)
        new = new.expand(len(parents), -1, -1)
        if self.ancestors is not None:
            new = torch.cat([take(self.ancestors, parents), new], dim=-1)
        self.ancestors = new

    def seen(self, tokens: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Whom these tokens see, their past and themselves but for padding; as `in_numbers`."""
        so_far = masks.causal_mask(tokens.shape[1], past=self.length)
        if self.generated and bool(so_far.all()):  # looked at on the CPU: no GPU has to wait
            own = self.ancestors
            return None, own if own is None else masks.to_additive(own[:, None])
        so_far = so_far.repeat_interleave(self.width, dim=-1).to(tokens.device)
        if self.ancestors is not None:
            so_far = (self.ancestors & so_far)[:, None]
        elif not self.generated:
            real = masks.padding_mask(tokens)
            self.real = real if self.real is None else torch.cat([self.real, real], dim=-1)
            so_far = self.real & so_far
        return in_numbers(so_far)

    def next(
        self, tokens: Tensor, mask: Tensor | None, source_mask: Tensor, maps: AttentionMaps | None
    ) -> list[tuple[Stepwise, Remembered]]:
        """The looks of the layers for these tokens, [B, N] or [B · W, 1]."""
        (own_mask, bias), batch = self.seen(tokens), len(tokens) // self.width
        if mask is not None:
            own_mask, bias = in_numbers(mask)
        for back, across in self.looks:
            back.mask, back.bias, back.maps = own_mask, bias, maps and maps.decoder
            back.time, back.batch = self.length, batch
            across.batch, across.maps = batch, maps and maps.cross
        if source_mask is not self.source_mask:
            self.source_mask, (mask, bias) = source_mask, in_numbers(source_mask)
            for _, across in self.looks:
                across.mask, across.bias = mask, bias
        self.length += tokens.shape[1]
        return self.looks

    def check(self, n_layers: int, memory: Tensor) -> None:
        """That it is of this decoder and of these sentences."""
        if len(self.looks) != n_layers:
            fix = "begin with this model's start()"
            raise invalid("state", f"{n_layers} layers", len(self.looks), fix)
        told = 0 if self.ancestors is None else self.ancestors.shape[-1] // self.width
        if self.width > 1 and told != self.length + 1:
            raise invalid("state", "descend(parents) before each step", told, "call it once")
        kept = self.looks[0][1].kept
        if kept is not None and (len(kept[0]), kept[0].shape[2]) != memory.shape[:2]:
            expected = f"a memory of {len(kept[0])} sentences, {kept[0].shape[2]} positions"
            fix = "begin with a new state for other sentences"
            raise invalid("state", expected, f"one of {shape(memory)}", fix)

    def select(self, rows: Tensor) -> None:
        """Keeps only these sentences: the others are finished."""
        self.real = None if self.real is None else self.real[rows]
        self.ancestors = None if self.ancestors is None else self.ancestors[rows]
        for look in (look for pair in self.looks for look in pair):
            look.select(rows)


def in_numbers(mask: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """A mask, or what is quicker: nothing where it hides nothing, else what is added to scores.

    That would be NaN for a query that sees nothing: then it stays as it is.
    """
    if torch.compiler.is_compiling():
        return mask, None
    if mask.all():
        return None, None
    return (None, masks.to_additive(mask)) if mask.any(-1).all() else (mask, None)
