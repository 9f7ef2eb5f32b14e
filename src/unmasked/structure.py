"""Compares a module, submodule by submodule, with the one that its configuration makes."""

from typing import Any

import numpy as np
from torch import Tensor, nn


def differences(module: nn.Module, twin: nn.Module, ignoring: tuple[str, ...] = ()) -> list[str]:
    """Returns the paths of submodules that differ from those of a twin, which a configuration made.

    Hooks, the weights' numbers, and which of them are frozen or shared make no difference.
    """
    mine, theirs = (dict(each.named_modules(remove_duplicate=False)) for each in (module, twin))
    paths = [
        path for path in mine | theirs if not alike(mine.get(path), theirs.get(path), ignoring)
    ]
    return [path or type(module).__name__ for path in paths]


def alike(part: Any, twin: Any, ignoring: tuple[str, ...]) -> bool:
    if type(part) is not type(twin) or weights(part) != weights(twin):
        return False
    names = {name for name in vars(twin) if name[0] != "_"} - {"training", "config", *ignoring}
    pairs = [(vars(part).get(name), vars(twin)[name]) for name in names]
    return all(not isinstance(a, Tensor | np.ndarray) and bool(a == b) for a, b in pairs)


def weights(part: nn.Module) -> dict[str, Any]:
    named = {**part._parameters, **part._buffers}
    return {name: x is not None and (type(x), x.shape) for name, x in named.items()}
