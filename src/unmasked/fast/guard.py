"""Where a faster version may stand in for a model's own modules."""

from __future__ import annotations

from inspect import isfunction
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks

from ..attention import MultiHeadAttention
from ..decoder import Decoder, DecoderLayer
from ..encoder import Encoder, EncoderLayer, Residual
from ..feed_forward import Convolution, FeedForward
from ..positions import LearnedPositions, SinusoidalPositions
from ..transformer import Embedding, Transformer
from .dropout import Dropout

# What a plain model is made of: every part's name, and the kinds of module that it may be.
PARTS: dict[str, tuple[type, ...]] = {
    "source_embedding": (Embedding,),
    "target_embedding": (Embedding,),
    "tokens": (nn.Embedding,),
    "positions": (SinusoidalPositions, LearnedPositions),
    "encoder": (Encoder,),
    "decoder": (Decoder,),
    "layers": (nn.ModuleList,),
    "self_attention": (MultiHeadAttention,),
    "cross_attention": (MultiHeadAttention,),
    **dict.fromkeys(("query", "key", "value", "output", "generator"), (nn.Linear,)),
    "feed_forward": (FeedForward,),
    "expand": (nn.Linear, Convolution),
    "contract": (nn.Linear, Convolution),
    "attention_residual": (Residual,),
    "self_residual": (Residual,),
    "cross_residual": (Residual,),
    "feed_forward_residual": (Residual,),
    "norm": (nn.LayerNorm, type(None)),
    "dropout": (Dropout,),
}
LAYERS = EncoderLayer, DecoderLayer  # their names are numbers
KINDS = {Transformer, *LAYERS}.union(*PARTS.values()) - {type(None)}
CALLED = "forward", "__call__", "_call_impl"  # torch.compile replaces others of every module's


def methods(kind: Any) -> dict[str, Any]:
    """What a module of this kind computes with: its own methods, and how it is called."""
    found = {name: getattr(kind, name) for name in dir(kind) if isfunction(getattr(kind, name))}
    inherited = vars(nn.Module)
    return {
        name: method
        for name, method in found.items()
        if name in CALLED or method is not inherited.get(name)
    }


METHODS = {kind: methods(kind) for kind in KINDS}
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@torch.compiler.disable  # type: ignore[untyped-decorator]
def is_plain(model: nn.Module) -> bool:
    """Whether reading the weights of a model is enough to compute what it computes.

    All parts are of our exact classes, as they were written; nobody hooks into them or has replaced
    a part or a method; and all layers have the same heads, activation, norm and pattern of biases.
    For anything else, calling its modules is the only right way.
    """
    if any(getattr(hooks, f"_global{name}") for name in HOOKS):
        return False
    if any(getattr(kind, name, None) is not method
           for kind, written in METHODS.items() for name, method in written.items()):  # fmt: skip
        return False
    modules = list(model.modules())
    if not all(map(is_untouched, modules)):
        return False
    styles = {style(module) for module in modules}
    return len(styles) == len({kind for kind, *_ in styles})


def is_untouched(module: Any) -> bool:
    """Of a known kind, with the parts of that kind, no hooks, and no method of its own."""
    kind = type(module)
    if kind not in KINDS or any(getattr(module, name) for name in HOOKS):
        return False
    if not METHODS[kind].keys().isdisjoint(vars(module)):
        return False
    if kind is MultiHeadAttention and not is_whole(module):
        return False
    if any(type(p) is not nn.Parameter for p in module._parameters.values() if p is not None):
        return False
    parts = module._modules.items()
    return all(type(part) in PARTS.get(name, LAYERS) for name, part in parts)


def is_whole(module: MultiHeadAttention) -> bool:
    """Whether its four matrices are [D, D], and all of them have a bias or none has."""
    parts = [part for part in module.children() if isinstance(part, nn.Linear)]
    square = all(part.weight.shape == (module.d_model, module.d_model) for part in parts)
    return square and len({part.bias is None for part in parts}) == 1


def style(module: Any) -> tuple[object, ...]:
    """What has to be the same in all modules of a kind."""
    if isinstance(module, MultiHeadAttention):
        return MultiHeadAttention, module.n_heads, module.query.bias is None
    if isinstance(module, FeedForward):
        return FeedForward, module.activation, type(module.expand), type(module.contract)
    if isinstance(module, Residual):
        return Residual, module.pre, getattr(module.norm, "eps", None)
    return (type(module),)
