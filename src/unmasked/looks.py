"""The looks of rows that are no padded batch: packed ones, and the newest of a search."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from . import masks
from .attention import AttentionMaps, Look, MultiHeadAttention, heads, split
from .errors import invalid, require_wholes, shape
from .kernels import take


class Layout:
    """Knows which positions of a padded batch [B, S] are computed, and packs and unpacks them."""

    def __init__(self, computed: Tensor) -> None:
        self.batch, self.length = computed.shape
        self.index = computed.flatten().nonzero()[:, 0]  # [N]

    def pack(self, x: Tensor) -> Tensor:  # [B, S, D] → [1, N, D]
        return x.flatten(0, 1).index_select(0, self.index)[None]

    def unpack(self, x: Tensor) -> Tensor:  # [1, N, D] → [B, S, D], zeros elsewhere
        rows = x.new_zeros(self.batch * self.length, x.shape[-1])
        return rows.index_copy(0, self.index, x[0]).view(self.batch, self.length, -1)


class Packed(Look):
    """A look for rows without padding, [1, N, D]: those of one sentence after the other."""

    def __init__(self, queries: Layout, keys: Layout, mask: Tensor) -> None:
        super().__init__(mask)
        self.queries, self.keys = queries, keys

    def places(self, x: Tensor) -> Tensor:  # noqa: ARG002
        return self.queries.index % self.queries.length

    def __call__(self, module: MultiHeadAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = self.queries.unpack(q), self.keys.unpack(k), self.keys.unpack(v)
        return self.queries.pack(super().__call__(module, q, k, v))


class Newest(Look):
    """A look for the newest rows of each sentence, whose earlier ones the layer has seen.

    They are N tokens of one hypothesis, [B, N, D], or one of each of W hypotheses, [B · W, 1, D].
    """

    batch, time = 1, 0  # sentences, and tokens of each hypothesis before the newest
    columns = 1  # of keys for each position

    def __init__(self, width: int = 1) -> None:
        super().__init__()
        self.width = width

    def places(self, x: Tensor) -> Tensor:
        n = x.numel() // (x.shape[-1] * self.batch * self.width)
        return torch.arange(self.time, self.time + n, device=x.device)

    def apart(self, q: Tensor, k: Tensor) -> Tensor:
        queries = torch.arange(self.time, self.time + q.shape[2] // self.width, device=k.device)
        return torch.arange(k.shape[2], device=k.device) // self.columns - queries[:, None]


class Stepwise(Newest):
    """A look back, into one cache a sentence for all steps of all of its hypotheses.

    Who descends from whom is a mask: no key or value is ever moved.
    """

    def __init__(self, room: int, width: int = 1) -> None:
        super().__init__(width)
        self.columns = width
        self.room, self.length = room * width, 0  # of keys
        self.keys = self.values = torch.empty(0)  # [B, H, room, K]

    def seen(self, rule: Callable[..., Tensor], queries: int, device: torch.device) -> Tensor:
        seen = rule(queries // self.width, past=self.time, device=device)
        return seen.repeat_interleave(self.width, dim=-1)

    def remember(self, n_heads: int, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        q, k, v = split(n_heads, self.batch, q, k, v)
        start, self.length = self.length, self.length + k.shape[2]
        if self.length > self.room:
            self.room = max(self.length, 2 * self.room)
        self.keys = self.longer(self.keys, k, start)
        self.values = self.longer(self.values, v, start)
        return q, self.keys.narrow(2, 0, self.length), self.values.narrow(2, 0, self.length)

    def longer(self, old: Tensor, new: Tensor, start: int) -> Tensor:
        """Puts the new behind the first `start` of the old: [B, H, room, K]."""
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
    """A look across, into a memory whose keys and values are projected once."""

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
    """What a decoder remembers between steps: two looks a layer, in the order of the pass.

    Of each sentence it may follow several hypotheses, `width`: then the batch of tokens is B · W,
    each a step of its own, and `descend` says whom they continue.
    """

    def __init__(self, n_layers: int, capacity: int = 32, width: int = 1) -> None:
        require_wholes(capacity=(capacity, 1), width=(width, 1))
        self.looks = [(Stepwise(capacity, width), Remembered(width)) for _ in range(n_layers)]
        self.width, self.length = width, 0  # hypotheses of each sentence, tokens of each
        self.real: Tensor | None = None  # [B, 1, 1, length]: the past's padding mask
        self.ancestors: Tensor | None = None  # [B, W, length · W]: among all that was written
        self.source_mask: Tensor | None = None
        self.generated = False  # by a search: tokens and state are not checked, none is padding
        self.rank = 3  # dimensions of the decoder's rows; fewer cost less time

    def descend(self, parents: Tensor) -> None:
        """Is told which of the W hypotheses so far each of the next ones continues: [B, W]."""
        new = torch.eye(self.width, dtype=torch.bool, device=parents.device)
        new = new.expand(len(parents), -1, -1)
        if self.ancestors is not None:
            new = torch.cat([take(self.ancestors, parents), new], dim=-1)
        self.ancestors = new

    def seen(self, tokens: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Makes mask and bias: these tokens see their past and themselves, without padding."""
        so_far = masks.causal_mask(tokens.shape[1], past=self.length)
        if self.generated and bool(so_far.all()):  # looked at on the CPU: no GPU has to wait
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
        """Prepares the looks of all layers for these tokens, [B, N] or [B · W, 1]."""
        (own, bias), batch = self.seen(tokens), len(tokens) // self.width
        if mask is not None:
            own, bias = mask, None
        for back, across in self.looks:
            back.mask, back.bias, back.maps = own, bias, maps and maps.decoder
            back.time = across.time = self.length
            back.batch = across.batch = batch
            across.maps = maps and maps.cross
            back.length = min(back.length, self.length * self.width)  # after a step that failed
        if source_mask is not self.source_mask:
            self.source_mask, (own, bias) = source_mask, in_numbers(source_mask)
            for _, across in self.looks:
                across.mask, across.bias = own, bias
        return self.looks

    def check(self, n_layers: int, memory: Tensor) -> None:
        """Refuses a state of another decoder or of other sentences."""
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
    """Gives a mask and its bias, or None and None if it hides nothing.

    The bias, 0 and minus infinity, is quicker, and None where a query sees no key: it would be NaN.
    """
    if torch.compiler.is_compiling():
        return mask, None
    if mask.all():
        return None, None
    return mask, masks.to_additive(mask) if mask.any(-1).all() else None
