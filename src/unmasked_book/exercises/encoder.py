"""Chapter 5's exercises."""

from collections.abc import Callable
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
            if wrong := other_parts(got, expected):
                return recognised(got, expected, model) or wrong
    return None


def pre_norm(layers: int) -> Transformer:
    """A small model with the norm before each sublayer, as in the models that ship, and random
    numbers in every parameter, so that no two norms and biases are alike.
    """
    config = TransformerConfig(
        source_vocab=9, target_vocab=9, d_model=8, n_heads=2, d_ff=16, n_layers=layers, norm="pre"
    )
    model = Transformer(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


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


def other_parts(got: Any, expected: list[Tensor]) -> str | None:
    """No list, or of another length, or other shapes; then the sum, then each part. Padding may
    hold anything.
    """
    if not isinstance(got, list | tuple | Tensor):
        return f"not yet: a list of tensors is asked for, and this is a {type(got).__name__}."
    if len(got) != len(expected):
        asked = f"{len(expected)}: the embedding, and two for each layer"
        return f"not yet: the list has {len(got)} parts, and should have {asked}."
    names = ["the embedding"]
    for layer in range(1, len(expected) // 2 + 1):
        names += [f"what layer {layer}'s {part} adds" for part in ("attention", "feed-forward")]
    cases = [f"part {place}, {name}," for place, name in enumerate(names)]
    parts = list(zip(got, expected, cases, strict=True))
    if wrong := next(filter(None, (same_form(*part) for part in parts)), None):
        return wrong
    mine, right = (torch.stack([*each]).sum(0) for each in (got, expected))
    parts.insert(0, (mine, right, "the sum of the parts, which goes into the last norm,"))
    return next(filter(None, (same_where(SOURCE != 0, *part) for part in parts)), None)


def recognised(got: Any, expected: list[Tensor], model: Transformer) -> str | None:
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
        if other_parts(got, parts) is None:
            return f"not yet: this is {what}."
    return None


CHECKS = (number(2**0.5, 0.005), layer_norm)  # the last number of the layer norm of 2, 4, 4, 6
PLUS = {"+": stream}
