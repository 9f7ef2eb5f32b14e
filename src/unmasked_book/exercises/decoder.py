"""Chapter 6's exercises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from unmasked import plain
from unmasked.masks import causal_mask, padding_mask
from unmasked.tokens import BOS, PADDING
from unmasked_book.exercises.compare import same_form, same_number, same_tensor


def remembered(answer: float) -> str | None:
    """Keys and values of 6 layers, 8 heads of width 64, 1,000 words."""
    return same_number(answer, 6_144_000)


def step_mask(answer: Callable[[int, int], Tensor]) -> str | None:
    """A causal mask [n, past + n] for n new words after `past` old ones."""
    for past, n in ((0, 3), (4, 1), (2, 3)):
        case = f"step_mask({past}, {n})"
        if wrong := same_tensor(answer(past, n), causal_mask(n, past=past), case):
            return wrong
    return None


SOURCE = torch.tensor([[3, 4, 5, 6, 2], [7, 2, 0, 0, 0]])
CASES = ((2, 0.3, 1, 5), (1, 0.7, 63, 8))  # <eos> before the end, and padding likely


def cached(answer: Callable[[plain.Transformer, Tensor, int], Tensor]) -> str | None:
    """The likeliest tokens [B, n], and no position computed twice."""
    for layers, std, seed, n in CASES:
        model = talkative(layers, std, seed)
        with torch.no_grad():
            expected = written(model, n)
            meters = metered(model, n)
            got = answer(model, SOURCE, n)
            case = f"generate(model, source, {n})"
            if wrong := same_form(got, expected, case):
                return wrong
            if wrong := same_tensor(got, expected, case):
                return recognised(got, model) or wrong
        for meter in meters:
            if wrong := meter.wrong():
                return f"not yet: right tokens, but {wrong}."
    return None


def talkative(layers: int, std: float, seed: int) -> plain.Transformer:
    """Random matrices so large that attention matters and one token seldom follows itself."""
    torch.manual_seed(seed)
    model = plain.Transformer(9, 9, 16, 2, layers, 32).eval()
    torch.manual_seed(seed)  # whatever the constructor has drawn
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=std)
    return model


def written(model: plain.Transformer, n: int, *, moves: bool = True, hidden: bool = True) -> Tensor:
    """The likeliest tokens but padding, without a cache: [B, n].

    Or two mistakes: without `moves` each new token is embedded at position 0, and unless it is
    `hidden` the source's padding is seen.
    """
    mask = padding_mask(SOURCE) if hidden else torch.tensor(True)
    memory = model.embed(model.source_embedding, SOURCE)
    for layer in model.encoder:
        memory = layer(memory, mask)
    memory = model.encoder_norm(memory)
    target = torch.full((len(SOURCE), 1), BOS)
    while target.shape[1] <= n:
        tokens = target if moves else target.view(-1, 1)
        x = model.embed(model.target_embedding, tokens).view(*target.shape, -1)
        for layer in model.decoder:
            x = layer(x, memory, causal_mask(target.shape[1]), mask)
        logits = model.generator(model.decoder_norm(x[:, -1:]))
        target = torch.cat([target, logits[..., 1:].argmax(-1) + 1], dim=1)
    return target[:, 1:]


def recognised(got: Tensor, model: plain.Transformer) -> str | None:
    """Mistakes by what they write."""
    n = got.shape[1]
    if (got == PADDING).any():
        return "not yet: it writes padding (0): take the likeliest of the others, past <eos> too."
    if torch.equal(got, written(model, n, moves=False)):
        return "not yet: it embeds each new token at position 0, and not where it stands."
    if torch.equal(got, written(model, n, hidden=False)):
        return "not yet: it sees the source's padding, in the encoder or in cross-attention."
    return None


class Meter:
    """Counts the positions that pass through a module, in all sentences."""

    def __init__(self, module: nn.Module, name: str, needed: int) -> None:
        self.name, self.needed, self.passed = name, needed, 0
        module.register_forward_hook(self.count)

    def count(self, _: nn.Module, __: tuple[Tensor], output: Tensor) -> None:
        self.passed += output.shape[:-1].numel()

    def wrong(self) -> str | None:
        seen = self.passed // len(SOURCE)  # in one sentence
        if seen == self.needed:
            return None
        enough = "enough" if seen > self.needed else "needed"
        return f"{self.name} saw {seen} positions where {self.needed} are {enough}"


def metered(model: Any, n: int) -> list[Meter]:
    """For all that is computed once for each position of the source or of the target."""
    length, meters = SOURCE.shape[1], []
    for number, layer in enumerate(model.decoder, start=1):
        meters.append(Meter(layer.feed_forward, f"the feed-forward of layer {number}", n))
        name = f"self_attention.key of layer {number}"
        meters.append(Meter(layer.self_attention.key, name, n))
        name = f"cross_attention.key of layer {number}"
        meters.append(Meter(layer.cross_attention.key, name, length))
    for number, layer in enumerate(model.encoder, start=1):
        name = f"the feed-forward of the encoder's layer {number}"
        meters.append(Meter(layer.feed_forward, name, length))
    return meters


CHECKS = (remembered, step_mask)
PLUS = cached
