"""Products of a few rows with the same matrix, again and again: the steps of a search.

On a CPU such a product takes as long as reading the matrix, and how it lies in memory decides.
PyTorch's own layout, one output's weights after the other, suits many rows.
"""

import platform
from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor
from torch.nn import functional as F

from .machine import CPUINFO

Product = Callable[[Tensor], Tensor]
SMALL = 1 << 17  # weights: half a megabyte
mkl, onednn = torch.ops.mkl, torch.ops.mkldnn  # two libraries by Intel, as in PyTorch's compiler


def product(weight: Tensor, bias: Tensor | None, rows: int = 1, *, vector: bool = False) -> Product:
    """`F.linear` with these weights, laid out for about so many rows; without gradients.

    What is multiplied is [..., inputs]; as a vector, one row is [inputs].

    On Intel's processors: packed for several rows (up to 2.7 × as fast), for one as they are. On
    others: in blocks for several, where the matrix is large (up to 2 × as fast); and input by input
    where there are more outputs than inputs (one row: up to 2.7 × as fast).
    """
    outputs, inputs = weight.shape
    by_intel = made_by_intel() and has_mkl()
    if by_intel and rows > 1:
        return packed(weight, bias, rows)
    if not by_intel and rows > 1 and weight.numel() > SMALL and has_onednn():
        return in_blocks(weight, bias, rows)
    if not by_intel and outputs > inputs:  # the weights of one input side by side
        weight = weight.t().contiguous().t()
    if not vector:
        return partial(F.linear, weight=weight, bias=bias)
    # With half of the fixed price of `F.linear`.
    return partial(torch.mv, weight) if bias is None else partial(torch.addmv, bias, weight)


def stays(weight: Tensor) -> bool:
    """Says whether weights stay as they lie: on other devices, of other types, in autocast."""
    other_kind = weight.device.type != "cpu" or weight.dtype != torch.float32
    return other_kind or torch.is_autocast_enabled("cpu")


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
