"""PyTorch's modules as our layers use them: the same numbers, quicker while a search goes on.

A step of a search is so little work that calling modules takes longer than computing. While one
goes on in a thread, `Linear` multiplies by its weights as they lie best for the step's rows, and a
`Part` that nobody listens to is not asked whether somebody does. The modules that are called are
always the model's own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.modules import module

from .products import Product, product, stays


class Part(nn.Module):
    """`nn.Module`; in a search that nobody listens to, a call is its forward."""

    def __call__(self, *given: Any, **options: Any) -> Any:
        layouts = None if torch.compiler.is_dynamo_compiling() else LAYOUTS.get()
        if layouts is not None and layouts.quiet:
            return self.forward(*given, **options)
        return super().__call__(*given, **options)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        KEPT.pop(self, None)  # of another type, or elsewhere, from now on
        return super()._apply(fn, recurse)


class LayerNorm(Part, nn.LayerNorm):
    """`nn.LayerNorm`."""

    by_position = True


class Linear(Part, nn.Linear):
    """`nn.Linear`; in a search, by its weights as they are laid out."""

    by_position = True

    def __call__(self, x: Tensor) -> Tensor:
        multiply = laid_out(self, x)
        return super().__call__(x) if multiply is None else multiply(x)


# --- Laid out ---------------------------------------------------------------------------------


class Layouts(dict[tuple[nn.Module, int], Product | None]):
    """Those of one search: of each layer that it calls with so many rows, when it first does.

    In effect in a `with` block, in this thread.
    """

    def __init__(self, rows: int, quiet: bool) -> None:
        super().__init__()
        self.rows, self.quiet = rows, quiet

    def __enter__(self) -> None:
        self.before = LAYOUTS.set(self)

    def __exit__(self, *_: object) -> None:
        LAYOUTS.reset(self.before)

    def add(self, whole: nn.Module, x: Tensor, parts: list[Linear]) -> Product | None:
        may = all(map(is_plain, parts)) and len({part.bias is None for part in parts}) == 1
        if may and x.numel() != self.rows * parts[0].in_features:  # a call that comes once
            return None
        may = may and not stays(parts[0].weight) and not torch.is_grad_enabled()
        multiply = kept(whole, parts, self.rows, x.dim() == 1) if may else None
        self[whole, x.dim()] = multiply
        return multiply


LAYOUTS: ContextVar[Layouts | None] = ContextVar("layouts", default=None)


def laid_out(whole: nn.Module, x: Tensor, *names: str) -> Product | None:
    """In a search, the product of x with a layer's weights; or the products with its parts'."""
    layouts = None if torch.compiler.is_dynamo_compiling() else LAYOUTS.get()
    if layouts is None:
        return None
    try:
        return layouts[whole, x.dim()]
    except KeyError:
        parts: list[Any] = [getattr(whole, name) for name in names] or [whole]
        return layouts.add(whole, x, parts)


KEPT: WeakKeyDictionary[nn.Module, tuple[object, list[Tensor], Any]] = WeakKeyDictionary()


def kept(whole: nn.Module, parts: list[Linear], rows: int, vector: bool) -> Any:
    """The product, from search to search as long as the layers' weights are the same.

    All of them are read once, a tenth of the time that a layout takes. PyTorch's counters of
    versions would not notice what is written through `.data` or by NumPy.
    """
    weights = [part.weight.detach() for part in parts]
    biases = [part.bias.detach() for part in parts if part.bias is not None]
    probed = [torch.mv(weight, probe(weight.shape[1])) for weight in weights]
    kind, before = (rows, vector, len(parts), len(biases)), KEPT.get(whole)
    if before and before[0] == kind and all(map(torch.equal, before[1], probed + biases)):
        return before[2]
    bias = torch.cat(biases) if biases else None
    multiply = product(torch.cat(weights), bias, rows, vector=vector)
    KEPT[whole] = kind, probed + [bias.clone() for bias in biases], multiply
    if len(parts) > 1:
        sizes = [len(weight) for weight in weights]
        KEPT[whole] = (*KEPT[whole][:2], lambda x: multiply(x).split_with_sizes(sizes, -1))
    return KEPT[whole][2]


@cache
def probe(length: int) -> Tensor:
    """To which each column matters, and each differently."""
    generator = torch.Generator().manual_seed(0)
    return torch.rand(length, generator=generator, dtype=torch.float32, device="cpu") + 0.5


# --- Whether anybody listens ------------------------------------------------------------------

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
LINEAR = nn.Linear.forward
BY_POSITION = {
    nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding, nn.ModuleList, nn.Sequential, nn.Dropout,
    nn.Identity, nn.ReLU, nn.GELU, nn.SiLU,
}  # fmt: skip


def is_heard(part: nn.Module) -> bool:
    """Whether it has hooks, or a forward of its own: what these do, nobody knows."""
    own = vars(part)
    return any(own[name] for name in HOOKS) or "forward" in own


def all_are_heard() -> bool:
    return any(getattr(module, f"_global{name}") for name in HOOKS)


def is_plain(part: nn.Module) -> bool:
    """Whether a linear layer's weights say all that it computes."""
    known = type(part) in (Linear, nn.Linear) and type(part.weight) is nn.Parameter
    return known and nn.Linear.forward is LINEAR and not is_heard(part) and not all_are_heard()


class Survey(NamedTuple):
    """What a walk through all parts of a model finds."""

    quiet: bool  # nobody listens
    mixing: str | None  # a part that might look at other positions than its own, by its path


def survey(model: nn.Module) -> Survey:
    """Ours do not mix positions, but by their look, nor do PyTorch's that are named above.

    Another says `by_position = True` in its class, or itself.
    """
    quiet, mixing = not all_are_heard(), None if not all_are_heard() else "a hook on every module"
    for path, part in model.named_modules():
        kind, heard = type(part), is_heard(part)
        said = vars(part).get("by_position", vars(kind).get("by_position", kind in BY_POSITION))
        quiet = quiet and not heard
        mixing = mixing if said and not heard else path or kind.__name__
    return Survey(quiet, mixing)
