"""A module compared, part by part, with what its configuration makes."""

from typing import Any

import numpy as np
from torch import Tensor, nn

EVERY = ("training", "config")  # what says nothing about one kind of module


def differences(module: nn.Module, twin: nn.Module, ignoring: tuple[str, ...] = ()) -> list[str]:
    """Lists the paths of parts that are not as in a twin, which a configuration made.

    A part is its class, the kinds and shapes of its weights, and every option that the twin's has.
    Hooks, notes, frozen and shared weights make no difference.
    """
    mine, theirs = (dict(each.named_modules(remove_duplicate=False)) for each in (module, twin))
    paths = [
        path for path in mine | theirs if not alike(mine.get(path), theirs.get(path), ignoring)
    ]
    return [path or type(module).__name__ for path in paths]


def alike(part: Any, twin: Any, ignoring: tuple[str, ...]) -> bool:
    if type(part) is not type(twin) or weights(part) != weights(twin):
        return False
    options = {name: value for name, value in vars(twin).items() if name[0] != "_"}
    found = {name: vars(part).get(name) for name in options.keys() - {*EVERY, *ignoring}}
    return all(
        not isinstance(value, Tensor | np.ndarray) and bool(value == options[name])
        for name, value in found.items()
    )


def weights(part: nn.Module) -> dict[str, Any]:
    named = {**part._parameters, **part._buffers}
    return {name: x is not None and (type(x), x.shape) for name, x in named.items()}
