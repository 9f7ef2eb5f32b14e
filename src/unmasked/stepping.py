"""One step of decoding for several hypotheses of several sentences: cached, or recomputed."""

from __future__ import annotations

import torch
from torch import Tensor

from .masks import padding_mask
from .ranking import take
from .special import PADDING
from .step_decoder import StepDecoder, is_plain
from .transformer import Transformer


class Cached:
    """Steps the decoder with what it remembers: one query a hypothesis, one cache a sentence.

    The W hypotheses of a sentence are W queries into one cache that holds every step of all of
    them. Who descends from whom is a mask, so that reordering hypotheses moves no key or value.
    """

    def __init__(self, model: Transformer, source: Tensor, width: int, steps: int) -> None:
        self.model, self.width, self.time = model, width, 0
        mask = padding_mask(source)
        self.mask = None if bool(mask.all()) else mask
        self.memory = model.encode(source)
        self.state = model.start(min(steps, 128) * width)  # room for most sentences
        self.own = torch.eye(width, dtype=torch.bool, device=source.device)
        self.ancestors = source.new_zeros(len(source), width, 0, dtype=torch.bool)
        self.decoder: StepDecoder | None = None
        if is_plain(model.decoder) and is_plain(model.generator) and bool(mask.any(-1).all()):
            short = source.device.type == "cpu" and 8 <= len(source) * width <= 128
            self.decoder = StepDecoder(model.decoder, model.generator, column_major=short)
            self.decoder.remember(self.memory, self.state)

    def step(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """The newest tokens and the hypotheses they continue, both [B, W] → logits [B, W, V]."""
        x = self.model.target_embedding(tokens.reshape(-1, 1), self.time)
        x = x.view(*tokens.shape, -1)  # [B, W, D]
        mask = self.lineage(parents)
        self.time += 1
        if self.decoder is not None:
            return without_padding(self.decoder(x, mask, self.mask, self.state))
        x = self.model.decoder(x, self.memory, mask=mask, memory_mask=self.mask, state=self.state)
        return without_padding(self.model.generator(x))

    def lineage(self, parents: Tensor) -> Tensor | None:
        """Each hypothesis sees itself and its ancestors: [B, 1, W, steps · W]."""
        if self.width == 1:
            return None
        inherited = take(self.ancestors, parents)
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
        self.written = source.new_zeros(len(source), width, 0, dtype=torch.long)

    def step(self, tokens: Tensor, parents: Tensor) -> Tensor:
        inherited = take(self.written, parents)
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
