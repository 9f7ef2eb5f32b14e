"""Defines what attention sees in a batch without padding and in the steps of a search."""

from __future__ import annotations

import torch
from torch import Tensor

from . import masks
from .attention import AttentionMaps, Look, MultiHeadAttention, heads, split
from .errors import invalid, require_wholes, shape
from .kernels import take


class Layout:
    """A layout packs batch positions where `computed` [B, S] is True into N rows, and unpacks."""

    def __init__(self, computed: Tensor) -> None:
        self.batch, self.length = computed.shape
        self.index = computed.flatten().nonzero()[:, 0]  # [N]

    def pack(self, x: Tensor) -> Tensor:  # [B, S, D] → [1, N, D]
        return x.flatten(0, 1).index_select(0, self.index)[None]

    def unpack(self, x: Tensor) -> Tensor:  # [1, N, D] → [B, S, D], zeros elsewhere
        rows = x.new_zeros(self.batch * self.length, x.shape[-1])
        return rows.index_copy(0, self.index, x[0]).view(self.batch, self.length, -1)


class Packed(Look):
    """This look serves the rows of all sentences, packed without their padding: [1, N, D]."""

    def __init__(self, queries: Layout, keys: Layout, mask: Tensor) -> None:
        super().__init__(mask)
        self.queries, self.keys = queries, keys

    def places(self, x: Tensor) -> Tensor:  # noqa: ARG002
        return self.queries.index % self.queries.length

    def __call__(self, module: MultiHeadAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = self.queries.unpack(q), self.keys.unpack(k), self.keys.unpack(v)
        return self.queries.pack(super().__call__(module, q, k, v))


class Newest(Look):
    """This look serves a decoder's step: queries are the newest tokens, after those of past calls.

    Rows are N tokens of one hypothesis, [B, N, D], or one of each of W hypotheses, [B · W, 1, D].
    """

    def __init__(self, width: int = 1) -> None:
        super().__init__()
        self.width, self.batch = width, 1  # hypotheses of each sentence, and sentences

    def places(self, x: Tensor) -> Tensor:
        n = x.numel() // (x.shape[-1] * self.batch * self.width)
        return torch.arange(self.time, self.time + n, device=x.device)


class Stepwise(Newest):
    """This look caches self-attention's keys and values of all hypotheses, which masks select."""

    def __init__(self, room: int, width: int = 1) -> None:
        super().__init__(width)
        self.columns = width
        self.room, self.length = room * width, 0  # of keys
        self.keys = self.values = torch.empty(0)  # [B, H, room, d_k]

    def remember(self, n_heads: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        q, k, v = split(n_heads, self.batch, q, k, v)
        start, self.length = self.length, self.length + k.shape[2]
        if self.length > self.room:
            self.room = max(self.length, 2 * self.room)
        self.keys = self.longer(self.keys, k, start)
        self.values = self.longer(self.values, v, start)
        return q, self.keys.narrow(2, 0, self.length), self.values.narrow(2, 0, self.length)

    def longer(self, old: Tensor, new: Tensor, start: int) -> Tensor:
        """Returns the cache `old` [B, H, room, d_k], larger if full, with `new` put at `start`."""
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


class Remembered(Newest):
    """This look caches cross-attention's keys and values, projected from the memory only once."""

    kept: tuple[Tensor, Tensor] | None = None

    def recall(self) -> tuple[Tensor, Tensor] | None:
        return self.kept

    def remember(self, n_heads: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        if self.kept is None:
            q, k, v = split(n_heads, self.batch, q, k, v)
            self.kept = k.contiguous(), v.contiguous()
            return q, *self.kept
        return heads(q, n_heads, self.batch), *self.kept

    def select(self, rows: Tensor) -> None:
        if self.kept is not None:
            self.kept = self.kept[0][rows], self.kept[1][rows]


class DecoderState:
    """A decoder state caches the keys and values of earlier steps: two looks for each layer.

    With `width` W it follows W hypotheses of each sentence, one token a step after `descend`.
    """

    def __init__(self, n_layers: int, capacity: int = 32, width: int = 1) -> None:
        require_wholes(capacity=(capacity, 1), width=(width, 1))
        self.looks = [(Stepwise(capacity, width), Remembered(width)) for _ in range(n_layers)]
        self.width, self.length = width, 0  # hypotheses of each sentence, tokens of each
        self.real: Tensor | None = None  # [B, 1, 1, length]: the padding mask of earlier tokens
        self.ancestors: Tensor | None = None  # [B, W, length · W]: which tokens each one continues
        self.source_mask: Tensor | None = None
        self.generated = False  # True in a search: nothing is validated, and no token is padding
        self.rank = 3  # dimensions of the decoder's rows; fewer cost less time

    def descend(self, parents: Tensor) -> None:
        """Records which earlier hypothesis each of the next W continues: indices [B, W]."""
        new = torch.eye(self.width, dtype=torch.bool, device=parents.device)
        new = new.expand(len(parents), -1, -1)
        if self.ancestors is not None:
            new = torch.cat([take(self.ancestors, parents), new], dim=-1)
        self.ancestors = new

    def seen(self, tokens: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Returns the self-attention mask of the tokens so far, and its additive form, or None."""
        so_far = masks.causal_mask(tokens.shape[1], past=self.length)
        if self.generated and bool(so_far.all()):  # on the CPU, so that no GPU has to wait
            if self.ancestors is None:
                return None, None
            return self.ancestors[:, None], masks.to_additive(self.ancestors[:, None])
        so_far = so_far.repeat_interleave(self.width, dim=-1).to(tokens.device)
        if self.ancestors is not None:
            return in_numbers((self.ancestors & so_far)[:, None])
        if self.generated:
            return in_numbers(so_far)
        real = masks.padding_mask(tokens)
        if self.real is not None:
            real = torch.cat([self.real[..., : self.length], real], dim=-1)
        self.real = real
        return in_numbers(real & so_far) if real.device.type == "cpu" else (real & so_far, None)

    def next(
        self, tokens: Tensor, mask: Tensor | None, source_mask: Tensor, maps: AttentionMaps | None
    ) -> list[tuple[Stepwise, Remembered]]:
        """Returns all layers' looks, with masks set for new tokens, [B, N] or [B · W, 1]."""
        (own, bias), batch = self.seen(tokens), len(tokens) // self.width
        if mask is not None:
            own, bias = mask, None
        for back, across in self.looks:
            back.mask, back.bias, back.maps = own, bias, maps and maps.decoder
            back.time = across.time = self.length
            back.batch = across.batch = batch
            across.maps = maps and maps.cross
            back.length = min(back.length, self.length * self.width)  # a failed step wrote more
        if source_mask is not self.source_mask:
            self.source_mask, (own, bias) = source_mask, in_numbers(source_mask)
            for _, across in self.looks:
                across.mask, across.bias = own, bias
        return self.looks

    def require(self, n_layers: int, memory: Tensor) -> None:
        """Raises ValueError unless the state fits this many layers and the memory's sentences."""
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
        """Keeps in all caches only the sentences that `rows` selects, by index or True."""
        self.real = None if self.real is None else self.real[rows]
        self.ancestors = None if self.ancestors is None else self.ancestors[rows]
        for look in (look for pair in self.looks for look in pair):
            look.select(rows)


def in_numbers(mask: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Returns the mask and an additive bias to replace it, or None twice if it hides nothing."""
    if torch.compiler.is_compiling():
        return mask, None
    if mask.all():
        return None, None
    # A query that sees no key has no bias: the softmax of minus infinities is NaN.
    return mask, masks.to_additive(mask) if mask.any(-1).all() else None
