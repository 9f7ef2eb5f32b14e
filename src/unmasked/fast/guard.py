"""Where a faster version may stand in for a model's own modules."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.modules import module as hooks

from ..attention import MultiHeadAttention
from ..decoder import Decoder, DecoderLayer
from ..encoder import Encoder, EncoderLayer, Residual
from ..feed_forward import Convolution, FeedForward
from ..positions import LearnedPositions, SinusoidalPositions
from ..transformer import Embedding, Transformer
from .dropout import Dropout

OURS = (
    *(Transformer, Embedding, SinusoidalPositions, LearnedPositions, Encoder, EncoderLayer),
    *(Decoder, DecoderLayer, Residual, MultiHeadAttention, FeedForward, Convolution, Dropout),
)
KINDS = {*OURS, nn.Embedding, nn.Linear, nn.LayerNorm, nn.ModuleList}
AS_WRITTEN = {kind: dict(vars(kind)) for kind in OURS}
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_plain(model: nn.Module) -> bool:
    """Whether reading the weights of a model is enough to compute what it computes.

    All parts are of our exact classes, as they were written; nobody hooks into them or has replaced
    a method; and all layers have the same heads, activation, norm and pattern of biases. For
    anything else, calling its modules is the only right way.
    """
    if any(getattr(hooks, f"_global{name}") for name in HOOKS):
        return False
    if any(vars(kind).get(name) is not value
           for kind, written in AS_WRITTEN.items()
           for name, value in written.items() if callable(value)):  # fmt: skip
        return False
    modules = list(model.modules())
    styles = {style(module) for module in modules}
    return all(map(is_untouched, modules)) and len(styles) == len({kind for kind, *_ in styles})


def is_untouched(module: nn.Module) -> bool:
    """Of a known kind, without hooks, and without a method of its own."""
    kind = type(module)
    return (
        kind in KINDS
        and not any(getattr(module, name) for name in HOOKS)
        and not any(callable(getattr(kind, name, None)) for name in vars(module))
    )


def style(module: Any) -> tuple[object, ...]:
    """What has to be the same in all modules of a kind."""
    if isinstance(module, MultiHeadAttention):
        parts = module.query, module.key, module.value, module.output
        return MultiHeadAttention, module.n_heads, *(part.bias is None for part in parts)
    if isinstance(module, FeedForward):
        return FeedForward, module.activation, type(module.expand), type(module.contract)
    if isinstance(module, Residual):
        return Residual, module.pre, getattr(module.norm, "eps", None)
    return (type(module),)
