"""Products of a few rows with the same matrices, again and again: the steps of a search.

On a CPU such a product takes as long as reading the matrix, and how it lies in memory decides.
PyTorch's own layout, one output's weights after the other, suits many rows.
"""

import platform
from collections.abc import Callable
from functools import cache, partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..machine import CPUINFO

Product = Callable[[Tensor], Tensor]
SMALL = 1 << 17  # weights: half a megabyte
mkl, onednn = torch.ops.mkl, torch.ops.mkldnn  # two libraries by Intel, as in PyTorch's compiler


def product(weight: Tensor, bias: Tensor | None, rows: int) -> Product:
    """`F.linear` with these weights, laid out for about so many rows; without gradients.

    What is multiplied is [rows, inputs], or [inputs] if there is one row.

    On Intel's processors: packed for several rows (up to 2.7 × as fast), for one as they are. On
    others: in blocks for several, where the matrix is large (up to 2 × as fast); and input by input
    where there are more outputs than inputs (one row: up to 2.7 × as fast).
    """
    outputs, inputs = weight.shape
    if stays(weight):
        return partial(F.linear, weight=weight, bias=bias)
    if made_by_intel() and has_mkl():
        return of_vector(weight, bias) if rows == 1 else packed(weight, bias, rows)
    if rows > 1 and weight.numel() > SMALL and has_onednn():
        return in_blocks(weight, bias, rows)
    if outputs > inputs:  # the weights of one input side by side
        weight = weight.t().contiguous().t()
    return of_vector(weight, bias) if rows == 1 else partial(F.linear, weight=weight, bias=bias)


def stays(weight: Tensor) -> bool:
    """Whether PyTorch's own layout is the one for it."""
    other_kind = weight.device.type != "cpu" or weight.dtype != torch.float32
    return other_kind or torch.is_autocast_enabled("cpu")


KEPT: WeakKeyDictionary[nn.Module, tuple[int, list[Tensor], Product]] = WeakKeyDictionary()


def kept(*parts: Any, rows: int, hidden: int | None = None) -> Product:
    """One product for several linear layers of the same input, and -inf for the output `hidden`.

    The layers keep their last one for the next call, as long as their weights give what they gave:
    all of them are read once, a tenth of the time that the layout takes. PyTorch's counters of
    versions would not notice what is written through `.data` or by NumPy.
    """
    weights = [part.weight.flatten(1) for part in parts]
    biases = [part.bias for part in parts if part.bias is not None]
    laid_out = not stays(weights[0])
    if laid_out:
        found = [torch.mv(weight, probe(weight.shape[1])) for weight in weights]
        found += [bias.clone() for bias in biases]
        before = KEPT.get(parts[0])
        if before and before[0] == rows and all(map(torch.equal, before[1], found)):
            return before[2]
    weight = weights[0] if len(weights) == 1 else torch.cat(weights)
    bias = torch.cat(biases) if biases else None
    if hidden is not None:
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        bias[hidden] = -torch.inf
    made = product(weight, bias, rows)
    if laid_out:
        KEPT[parts[0]] = rows, found, made
    return made


@cache
def probe(length: int) -> Tensor:
    """To which each column matters, and each differently."""
    return torch.rand(length, generator=torch.Generator().manual_seed(0)) + 0.5


def of_vector(weight: Tensor, bias: Tensor | None) -> Product:
    """With half of the fixed price of `F.linear`."""
    return partial(torch.mv, weight) if bias is None else lambda x: torch.addmv(bias, weight, x)


def packed(weight: Tensor, bias: Tensor | None, rows: int) -> Product:
    """As MKL packs a matrix that is used again and again.

    Any number of rows may be multiplied later: MKL asks for no more than the same layout, and
    CTranslate2 relies on it. PyTorch would go back to `F.linear` for another number than was packed
    for, so it is told the number that comes.
    """
    weight, inputs = weight.contiguous(), weight.shape[1]
    packed_weight = mkl._mkl_reorder_linear_weight(weight, rows)
    return lambda x: mkl._mkl_linear(x, packed_weight, weight, bias, x.numel() // inputs)


def in_blocks(weight: Tensor, bias: Tensor | None, rows: int) -> Product:
    """In the blocks of oneDNN, which `F.linear` would make anew in each call."""
    blocked_weight = onednn._reorder_linear_weight(weight.contiguous(), rows)
    return lambda x: onednn._linear_pointwise(x, blocked_weight, bias, "none", [], "")


@cache
def made_by_intel() -> bool:
    """By the maker's own name for itself, which virtual machines keep."""
    return "GenuineIntel" in (CPUINFO.read_text() if CPUINFO.exists() else platform.processor())


def has_mkl() -> bool:
    names = ("_mkl_reorder_linear_weight", "_mkl_linear")
    return torch.backends.mkl.is_available() and all(hasattr(mkl, name) for name in names)


def has_onednn() -> bool:
    names = ("_reorder_linear_weight", "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and all(hasattr(onednn, name) for name in names)
