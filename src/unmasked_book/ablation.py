"""Switches parts of a trained Transformer off, to see what the model relies on.

A sublayer that is off adds nothing; a residual connection that is off passes on only the sublayer's
output. This tells what *one* model needs, trained with everything on, not what a Transformer needs.
"""

import copy
import math
from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor, nn

from unmasked.attention import MultiHeadAttention
from unmasked.encoder import Residual
from unmasked.errors import invalid, require_choice
from unmasked.transformer import Transformer

Head = tuple[str, int, int]  # "encoder", "decoder" or "cross"; layer; head: from 0


def without(model: Transformer, *parts: str, heads: Iterable[Head] = ()) -> Transformer:
    """Returns a copy of the model without these parts (keys of `PARTS`) and attention heads."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for part in parts:
            require_choice("part", part, tuple(PARTS))
            PARTS[part](model)
        for head in heads:
            silence(model, head)
    return model


class NoPositions(nn.Module):
    """NoPositions takes the place of a position encoding and returns the embeddings unchanged."""

    by_position = True

    def forward(self, x: Tensor, start: int = 0) -> Tensor:  # noqa: ARG002
        return x


class NoResidual(Residual):
    """NoResidual is a residual connection that returns the sublayer's output without adding x."""

    by_position = True

    def forward(self, x: Tensor, sublayer: Callable[..., Tensor], **options: object) -> Tensor:
        if self.pre:
            return self.dropout(sublayer(self.norm(x), **options))
        return self.norm(self.dropout(sublayer(x, **options)))


def no_residuals(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, Residual):
            module.__class__ = NoResidual


def no_norms(model: nn.Module) -> None:
    for module in model.modules():
        if getattr(module, "norm", None) is not None:
            setattr(module, "norm", nn.Identity())  # noqa: B010 (its type is a LayerNorm's)


def no_positions(side: str, model: Transformer) -> None:
    model.get_submodule(f"{side}_embedding").positions = NoPositions()


def no_sublayer(where: str, name: str, model: Transformer) -> None:
    """Zeroes the layers whose path begins with `where` and ends with `name`, a sublayer's last."""
    for path, parameter in model.named_parameters():
        if path.startswith(where) and path.rpartition(".")[0].endswith(name):
            parameter.zero_()


def no_scale(model: Transformer) -> None:
    """Multiplies query layers by the root of a head's width, which undoes the scores' scaling."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            for parameter in module.query.parameters():
                parameter.mul_(math.sqrt(module.d_model // module.n_heads))


PARTS: dict[str, Callable[[Transformer], None]] = {
    "encoder_positions": partial(no_positions, "source"),
    "decoder_positions": partial(no_positions, "target"),
    "encoder_self": partial(no_sublayer, "encoder", "self_attention.output"),
    "decoder_self": partial(no_sublayer, "decoder", "self_attention.output"),
    "cross": partial(no_sublayer, "decoder", "cross_attention.output"),
    "feed_forward": partial(no_sublayer, "", "feed_forward.contract"),
    "residuals": no_residuals,
    "norms": no_norms,
    "scale": no_scale,
}


def silence(model: Transformer, head: Head) -> None:
    """Zeroes an attention head's columns of the output matrix; ValueError if there is none."""
    kind, layer, number = head
    side, name = ("decoder", "cross") if kind == "cross" else (kind, "self")
    attention = dict(model.named_modules()).get(f"{side}.layers.{layer}.{name}_attention")
    if not isinstance(attention, MultiHeadAttention) or not 0 <= number < attention.n_heads:
        fix = "a kind (encoder, decoder, cross), a layer and a head, both counted from 0"
        raise invalid("head", "one that the model has", repr(head), fix)
    width = attention.d_model // attention.n_heads
    attention.output.weight[:, number * width : (number + 1) * width] = 0.0
