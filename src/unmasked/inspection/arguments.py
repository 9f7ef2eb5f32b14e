"""What `check` refuses to begin with."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from ..validation import check_at_least, invalid

FEWEST = 4  # padding and three words: neighbours can differ, and change places


def check_arguments(
    model: nn.Module, functions: dict[str, object], pairs: list[Any], seed: int
) -> None:
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        fix = "check the model that it was made from: from outside, nothing in it can be watched"
        raise invalid("model", "modules written in Python", "a ScriptModule", fix)
    if any(is_lazy(parameter) or parameter.is_meta for parameter in model.parameters()):
        fix = "call a lazy model once; move one from the meta device with to_empty"
        raise invalid("model", "parameters that have numbers", "some without", fix)
    for name, function in functions.items():
        if function is not None and not callable(function):
            fix = f"write {name}=lambda model, source, target: …"
            got = type(function).__name__
            raise invalid(name, "a function of model, source and target", got, fix)
    named = dict(model.named_parameters(remove_duplicate=False))
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            fix = 'write tied=[("embedding.weight", "output.weight")]'
            raise invalid("tied", "pairs of parameter names", repr(pair), fix)
        for name in pair:
            if name not in named:
                fix = "model.named_parameters(remove_duplicate=False) lists them"
                raise invalid("tied", "names of parameters", repr(name), fix)
    check_at_least("seed", seed, 0)


def words(argument: str, size: int | None, known: object, padding: int) -> int:
    """The size of a vocabulary: what was given, or what the model knows."""
    size = getattr(known, argument, None) if size is None else size
    if size is None:
        fix = "pass source_vocab=… and target_vocab=…; only an unmasked.Transformer knows them"
        raise invalid(argument, "the number of words", None, fix)
    check_at_least(argument, size, FEWEST)
    check_at_least("padding", padding, 0)
    if padding >= size:
        fix = "name the token that fills short sentences"
        raise invalid("padding", f"a token below {argument}={size}", padding, fix)
    return size
