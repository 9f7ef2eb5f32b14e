"""Makes linear layers quicker in a search, and finds modules that may mix sequence positions.

A step of a search has few rows, for which another layout of the weights is quicker. While a search
runs in a thread, each `Linear` multiplies by weights that are laid out for them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules import module

from .products import Product, product, stays


class Linear(nn.Linear):
    """This `nn.Linear` uses weights in a layout for few rows while a search runs in its thread."""

    def __call__(self, x: Tensor) -> Tensor:
        multiply = laid_out(self, x)
        return super().__call__(x) if multiply is None else multiply(x)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        KEPT.pop(self, None)  # its weights get another type or device
        return super()._apply(fn, recurse)


# --- Laid out ---------------------------------------------------------------------------------


class LaidOut(dict[tuple[nn.Module, int], Product | None]):
    """This dictionary maps (layer, x.dim()) to fast functions of x, in use in its `with` block."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows

    def __enter__(self) -> None:
        self.before = LAID_OUT.set(self)

    def __exit__(self, *_: object) -> None:
        LAID_OUT.reset(self.before)

    def add(self, whole: nn.Module, x: Tensor, parts: list[Linear]) -> Product | None:
        may = all(map(is_plain, parts)) and len({part.bias is None for part in parts}) == 1
        if may and x.numel() != self.rows * parts[0].in_features:  # the memory, projected once
            return None
        may = may and not stays(parts[0].weight)
        multiply = kept(parts, self.rows, x.dim() == 1) if may else None
        self[whole, x.dim()] = multiply
        return multiply


LAID_OUT: ContextVar[LaidOut | None] = ContextVar("laid_out", default=None)


def laid_out(whole: nn.Module, x: Tensor, *names: str) -> Product | None:
    """Returns a fast function of x for a layer or its named sublayers; None outside a search."""
    products = None if torch.compiler.is_dynamo_compiling() else LAID_OUT.get()
    if products is None or torch.is_grad_enabled():
        return None
    try:
        return products[whole, x.dim()]
    except KeyError:
        parts: list[Any] = [getattr(whole, name) for name in names] or [whole]
        return products.add(whole, x, parts)


KEPT: WeakKeyDictionary[nn.Module, tuple[object, list[Tensor], Any]] = WeakKeyDictionary()


def kept(parts: list[Linear], rows: int, vector: bool) -> Any:
    """Returns a function that multiplies rows by the layers' weights, cached until these change.

    PyTorch's version counters miss changes through `.data` and NumPy; a `probe` product does not.
    """
    weights = [part.weight.detach() for part in parts]
    biases = [part.bias.detach() for part in parts if part.bias is not None]
    probed = [torch.mv(weight, probe(weight.shape[1])) for weight in weights]
    kind, before = (rows, vector, len(parts), len(biases)), KEPT.get(parts[0])
    if before and before[0] == kind and all(map(torch.equal, before[1], probed + biases)):
        return before[2]
    weight = torch.cat(weights) if len(weights) > 1 else weights[0]
    joint: Any = product(weight, torch.cat(biases) if biases else None, rows, vector=vector)
    sizes = [len(each) for each in weights]
    multiply = (lambda x: joint(x).split_with_sizes(sizes, -1)) if len(parts) > 1 else joint
    KEPT[parts[0]] = kind, probed + [bias.clone() for bias in biases], multiply
    return multiply


@cache
def probe(length: int) -> Tensor:
    """Returns a fixed vector whose product with a matrix changes when any column of that does."""
    generator = torch.Generator().manual_seed(0)
    return torch.rand(length, generator=generator, dtype=torch.float32, device="cpu") + 0.5


# --- Which modules mix positions --------------------------------------------------------------

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
LINEAR = nn.Linear.forward
BY_POSITION = {
    nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.ModuleList, nn.Sequential, nn.Dropout,
    nn.Identity, nn.ReLU, nn.GELU, nn.SiLU,
}  # fmt: skip


def is_heard(part: nn.Module) -> bool:
    """Returns True for a module with hooks or a replaced `forward`, which may do anything."""
    return any(getattr(part, name) for name in HOOKS) or "forward" in vars(part)


def all_are_heard() -> bool:
    return any(getattr(module, f"_global{name}") for name in HOOKS)


def is_plain(part: nn.Module) -> bool:
    """Returns True for a Linear without hooks or overrides: its weights alone decide its output."""
    known = type(part) in (Linear, nn.Linear) and type(part.weight) is nn.Parameter
    return known and type(part).forward is LINEAR and not is_heard(part) and not all_are_heard()


def works_by_position(kind: type) -> bool:
    """Returns True for a module class that mixes no positions, or only those its `Look` allows."""
    ours = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
    return bool(vars(kind).get("by_position", ours or kind in BY_POSITION))


def mixing(model: nn.Module) -> tuple[str | None, str | None, str | None]:
    """Returns the paths of three submodules that may mix positions, or None for those not there.

    The first has no known base class, the second may have one, the third has a hook. A class or
    module with `by_position = True` mixes none, and must take inputs of any shape [..., D].
    """
    unknown, foreign, heard = None, None, "every module" if all_are_heard() else None
    for path, part in model.named_modules():
        kind = type(part)
        if {"parametrizations", "score_bias"} & {*path.split(".")}:  # these take no rows
            continue
        if not vars(part).get("by_position", works_by_position(kind)):
            foreign = path or kind.__name__
            unknown = unknown if any(map(works_by_position, kind.__mro__)) else foreign
        elif is_heard(part):
            heard = path or kind.__name__
    return unknown, foreign, heard
