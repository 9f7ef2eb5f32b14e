"""Where a faster version may stand in for a model's own modules.

A model is plain if it is what its configuration makes: reading its weights is then enough to
compute what it computes. Anything else is called, module by module, which is always right; so is a
model of which somebody has replaced a method or a function. What was patched in PyTorch before this
file was loaded is not noticed.
"""

import sys
from functools import lru_cache
from inspect import isfunction
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from ..attention import MultiHeadAttention
from ..config import TransformerConfig
from ..decoder import Decoder, DecoderLayer
from ..encoder import Encoder, EncoderLayer, Residual
from ..feed_forward import Convolution, FeedForward
from ..kernels import Dropout
from ..masks import causal_mask
from ..positions import LearnedPositions, SinusoidalPositions
from ..transformer import Embedding, Transformer, without_numbers

KINDS = (
    Transformer, Embedding, Encoder, EncoderLayer, Decoder, DecoderLayer, Residual, FeedForward,
    MultiHeadAttention, Convolution, Dropout, SinusoidalPositions, LearnedPositions,
    nn.Embedding, nn.Linear, nn.Conv1d, nn.LayerNorm, nn.ModuleList,
)  # fmt: skip
CALLED = {"forward", "__call__", "_call_impl"}  # torch.compile replaces others of every module's
FILES = {sys.modules[of.__module__] for of in (*KINDS, causal_mask) if "unmasked" in of.__module__}
WATCHED: list[tuple[Any, str, Any]] = [
    (owner, name, function)
    for owner in (*KINDS, *FILES)
    for name in vars(owner).keys() | (CALLED if owner in KINDS else set())
    if isfunction(function := getattr(owner, name))
]
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
EVERY = ("training", "config")  # what is no option of one kind of module
DROPOUT = ("p", "dropout")
Structure = dict[str, tuple[Any, ...]]


def structure(model: nn.Module, ignoring: tuple[str, ...] = ()) -> Structure:
    """Each part by its path: its class, options, weights' kinds and shapes, and whether hooks."""
    parts: Structure = {}
    for path, part in model.named_modules(remove_duplicate=False):
        tensors = {**part._parameters, **part._buffers}
        weights = {name: x is not None and (type(x), x.shape) for name, x in tensors.items()}
        options = {name: type(value) if isinstance(value, Tensor | np.ndarray) else value
                   for name, value in vars(part).items() if name not in (*EVERY, *ignoring)
                   and value is not None and (name[0] != "_" or name in CALLED)}  # fmt: skip
        parts[path] = type(part), options, weights, any(getattr(part, name) for name in HOOKS)
    return parts


def is_patched() -> bool:
    """Whether somebody listens to all modules, or has replaced a method or function of ours."""
    if any(getattr(hooks, f"_global{name}") for name in HOOKS):
        return True
    return any(getattr(owner, name, None) is not function for owner, name, function in WATCHED)


def changes(module: nn.Module, fresh: Structure, ignoring: tuple[str, ...] = ()) -> list[str]:
    """The paths of the parts that are not as in a fresh module's structure."""
    mine = structure(module, ignoring)
    paths = [path for path in mine | fresh if mine.get(path) != fresh.get(path)]
    patched = ["class, patched or listened to"] if is_patched() else []
    return patched + [path or type(module).__name__ for path in paths]


@lru_cache(maxsize=16)
def expected(config: TransformerConfig) -> Structure:
    """What a configuration makes; its probabilities of dropout do not count."""
    return structure(without_numbers(config), DROPOUT)


def is_plain(model: nn.Module) -> bool:
    """Whether nobody has changed a part, a method or an option, or listens with a hook.

    Probabilities of dropout may be others than in the configuration.
    """
    if torch.compiler.is_compiling():  # not a decorator: it would load the compiler at once
        return bool(torch.compiler.disable(is_as_configured)(model))
    return is_as_configured(model)


def is_as_configured(model: nn.Module) -> bool:
    if type(model) is nn.Linear:
        twin = nn.Linear(model.in_features, model.out_features, model.bias is not None, "meta")
        return not changes(model, structure(twin))
    config = getattr(model, "config", None)
    return type(config) is TransformerConfig and not changes(model, expected(config), DROPOUT)
