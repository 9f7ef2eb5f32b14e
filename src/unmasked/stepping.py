"""One step of decoding for several hypotheses of several sentences: cached, or recomputed."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .masks import padding_mask
from .special import PADDING
from .transformer import Transformer

M = TypeVar("M", bound=nn.Module)


class Cached:
    """Steps the decoder with what it remembers: one query a hypothesis, one cache a sentence.

    The W hypotheses of a sentence are W queries into one cache that holds every step of all of
    them. Who descends from whom is a mask, so that reordering hypotheses moves no key or value.
    """

    def __init__(self, model: Transformer, source: Tensor, width: int, steps: int) -> None:
        self.model, self.width, self.time = model, width, 0
        self.decoder, self.generator = model.decoder, model.generator
        if source.device.type == "cpu" and 8 <= len(source) * width <= 128:
            self.decoder = column_major(model.decoder)
            self.generator = column_major(model.generator)
        mask = padding_mask(source)
        self.mask = None if bool(mask.all()) else mask
        self.memory = model.encode(source)
        self.state = model.start(steps * width)
        self.own = torch.eye(width, dtype=torch.bool, device=source.device)
        self.ancestors = source.new_zeros(len(source), width, 0, dtype=torch.bool)

    def step(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """The newest tokens and the hypotheses they continue, both [B, W] → logits [B, W, V]."""
        x = self.model.target_embedding(tokens.reshape(-1, 1), self.time)
        x = x.view(*tokens.shape, -1)  # [B, W, D]
        x = self.decoder(
            x, self.memory, mask=self.lineage(parents), memory_mask=self.mask, state=self.state
        )
        self.time += 1
        return without_padding(self.generator(x))

    def lineage(self, parents: Tensor) -> Tensor | None:
        """Each hypothesis sees itself and its ancestors: [B, 1, W, steps · W]."""
        if self.width == 1:
            return None
        inherited = self.ancestors.gather(1, parents[:, :, None].expand_as(self.ancestors))
        self.ancestors = torch.cat([inherited, self.own.expand(len(parents), -1, -1)], dim=-1)
        return self.ancestors[:, None]

    def keep(self, rows: Tensor) -> None:
        """Forgets the sentences that are finished."""
        self.memory, self.ancestors = self.memory[rows], self.ancestors[rows]
        self.mask = None if self.mask is None else self.mask[rows]
        self.state.select(rows)


class Recomputed:
    """The same steps, each from the first token on: to compare with, and to trust."""

    def __init__(self, model: Transformer, source: Tensor, width: int, _: int) -> None:
        self.model = model
        self.mask, self.memory = padding_mask(source), model.encode(source)
        self.written = source.new_zeros(len(source), width, 0)

    def step(self, tokens: Tensor, parents: Tensor) -> Tensor:
        inherited = self.written.gather(1, parents[:, :, None].expand_as(self.written))
        self.written = torch.cat([inherited, tokens[:, :, None]], dim=-1)  # [B, W, time]
        width = tokens.shape[1]
        x = self.model.decode(
            self.written.flatten(0, 1),
            self.memory.repeat_interleave(width, dim=0),
            source_mask=self.mask.repeat_interleave(width, dim=0),
        )
        return without_padding(self.model.generator(x[:, -1])).view(*tokens.shape, -1)

    def keep(self, rows: Tensor) -> None:
        self.mask, self.memory = self.mask[rows], self.memory[rows]
        self.written = self.written[rows]


def without_padding(logits: Tensor) -> Tensor:
    """Logits in which padding cannot win: it fills rows, nobody writes it."""
    logits[..., PADDING] = -torch.inf
    return logits


def column_major(module: M) -> M:
    """A copy whose matrices lie the other way round in memory, which suits a CPU's short products.

    The values are the same. With 8 to 128 rows against a large matrix this is up to 1.7 × as fast.
    """
    relaid: dict[int, Any] = {
        id(p): nn.Parameter(p.detach().t().contiguous().t(), requires_grad=False)
        for p in module.parameters()
        if p.dim() == 2
    }
    return copy.deepcopy(module, relaid)
