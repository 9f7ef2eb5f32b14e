"""Chapter 6's exercises."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from unmasked import plain
from unmasked.masks import causal_mask, padding_mask
from unmasked.tokens import BOS, PADDING
from unmasked_book.exercises.compare import function, number, same_form, same_tensor

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
        for name, (needed, passed) in meters.items():
            if (seen := sum(passed)) != needed:
                enough = "enough" if seen > needed else "needed"
                wrong = f"{name} saw {seen} positions where {needed} are {enough}"
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


def metered(model: Any, n: int) -> dict[str, tuple[int, list[int]]]:
    """Of all that is computed once for each position of the source or of the target: how many
    positions are enough, and those that have passed since, call by call, in one sentence.
    """
    parts, length = {}, SOURCE.shape[1]
    for place, layer in enumerate(model.decoder, start=1):
        parts[f"the feed-forward of layer {place}"] = layer.feed_forward, n
        parts[f"self_attention.key of layer {place}"] = layer.self_attention.key, n
        parts[f"cross_attention.key of layer {place}"] = layer.cross_attention.key, length
    for place, layer in enumerate(model.encoder, start=1):
        parts[f"the feed-forward of the encoder's layer {place}"] = layer.feed_forward, length
    meters = {}
    for name, (module, needed) in parts.items():
        passed: list[int] = []

        def count(_: nn.Module, __: Any, output: Tensor, passed: list[int] = passed) -> None:
            passed.append(output.shape[:-1].numel() // len(SOURCE))

        module.register_forward_hook(count)
        meters[name] = needed, passed
    return meters


CHECKS = (
    number(6_144_000),  # keys and values of 6 layers, 8 heads of width 64, 1,000 words
    function("step_mask", lambda past, n: causal_mask(n, past=past), (0, 3), (4, 1), (2, 3)),
)
PLUS = {"+": cached}
