"""Chapter 5's exercises."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unmasked.config import TransformerConfig
from unmasked.masks import padding_mask
from unmasked.transformer import Transformer
from unmasked_book.exercises.compare import number, same_form, same_tensor, same_where


def layer_norm(answer: Callable[[Tensor, float], Tensor]) -> str | None:
    """Mean 0 and variance 1 over the last dimension."""
    draws = torch.Generator().manual_seed(0)
    for shape, eps in (((4,), 1e-5), ((2, 3, 8), 0.5)):
        x = 3 + 2 * torch.randn(shape, generator=draws)
        expected = F.layer_norm(x, shape[-1:], eps=eps)
        if wrong := same_tensor(answer(x, eps), expected, f"layer_norm of shape {list(shape)}"):
            return wrong
    return None


SOURCE = torch.tensor([[3, 4, 5, 6, 2], [7, 2, 0, 0, 0]])


def stream(answer: Callable[[Transformer, Tensor], list[Tensor]]) -> str | None:
    """What is added to the encoder's residual stream: the embedding, then two parts a layer."""
    torch.manual_seed(0)
    for layers in (1, 3):
        model = pre_norm(layers)
        got = answer(model, SOURCE)
        with torch.no_grad():
            expected = added(model, padding_mask(SOURCE))
            if wrong := other_list(got, expected):
                return wrong
            if wrong := other_values(got, expected):
                return recognised(got, expected, model) or wrong
    return None


def scattered(module: Transformer) -> Transformer:
    """With random numbers in every parameter, so that no two norms and biases are alike."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module.eval()


def pre_norm(layers: int) -> Transformer:
    """A small model with the norm before each sublayer, as in the models that ship."""
    config = TransformerConfig(
        source_vocab=9, target_vocab=9, d_model=8, n_heads=2, d_ff=16, n_layers=layers, norm="pre"
    )
    return scattered(Transformer(config))


def added(model: Any, mask: Tensor | None, normed: bool = True) -> list[Tensor]:
    """1 + 2 · layers tensors [B, S, D]; `normed` says whether a sublayer reads the norm of x."""
    x = model.source_embedding(SOURCE)
    parts = [x]
    for layer in model.encoder.layers:
        y = layer.attention_residual.norm(x) if normed else x
        parts.append(layer.self_attention(y, mask=mask))
        x = x + parts[-1]
        y = layer.feed_forward_residual.norm(x) if normed else x
        parts.append(layer.feed_forward(y))
        x = x + parts[-1]
    return parts


def named(parts: Sequence[Tensor]) -> dict[str, Tensor]:
    """The parts by what they are, in words."""
    layers = range(1, len(parts) // 2 + 1)
    adds = [
        f"what layer {n}'s {part} adds" for n in layers for part in ("attention", "feed-forward")
    ]
    names = (f"part {number}, {name}," for number, name in enumerate(["the embedding", *adds]))
    return dict(zip(names, parts, strict=True))


def other_list(got: Any, expected: list[Tensor]) -> str | None:
    """Whether this is no list of as many tensors of these shapes."""
    if not isinstance(got, list | tuple | Tensor):
        return f"not yet: a list of tensors is asked for, and this is a {type(got).__name__}."
    if len(got) != len(expected):
        asked = f"{len(expected)}: the embedding, and two for each layer"
        return f"not yet: the list has {len(got)} parts, and should have {asked}."
    cases = zip(got, named(expected).items(), strict=True)
    return next((wrong for part, (case, x) in cases if (wrong := same_form(part, x, case))), None)


def other_values(got: Sequence[Tensor], expected: Sequence[Tensor]) -> str | None:
    """First the sum, then each part. Padding may hold anything."""
    pairs = {
        "the sum of the parts, which goes into the last norm,": (
            torch.stack([*got]).sum(0),
            torch.stack([*expected]).sum(0),
        )
    }
    pairs |= dict(zip(named(expected), zip(got, expected, strict=True), strict=True))
    for case, (part, x) in pairs.items():
        if wrong := same_where(SOURCE != 0, part, x, case):
            return wrong
    return None


def recognised(got: Sequence[Tensor], expected: list[Tensor], model: Transformer) -> str | None:
    """Three lists that are something else."""
    mask, running = padding_mask(SOURCE), list(torch.stack(expected).cumsum(0))
    lists = {
        "the stream after each sublayer; asked for is what each adds to it": running,
        "what sublayers add that see the source's padding": added(model, None),
        "what sublayers add that read the stream itself, and not its norm": added(
            model, mask, False
        ),
    }
    for what, parts in lists.items():
        if other_values(got, parts) is None:
            return f"not yet: this is {what}."
    return None


CHECKS = (number(2**0.5, 0.005), layer_norm)  # the last number of the layer norm of 2, 4, 4, 6
PLUS = stream
