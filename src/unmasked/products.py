"""Multiplies few rows by the same matrix again and again, as the steps of a search do.

On a CPU such a product takes as long as reading the matrix, so its layout in memory decides.
PyTorch's own layout, the weights of one output side by side, suits many rows.
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
has_mkl = torch.backends.mkl.is_available() and hasattr(mkl, "_mkl_linear")
has_onednn = torch.backends.mkldnn.is_available() and hasattr(onednn, "_linear_pointwise")


def product(weight: Tensor, bias: Tensor | None, rows: int = 1, *, vector: bool = False) -> Product:
    """Returns a function like `F.linear`, without gradients, whose weights are laid out for `rows`.

    With `vector` it takes one row, [inputs]. Several rows are up to 2.7 × as fast on Intel's
    processors, up to 2 × on others (large matrices); one row up to 2.7 × there (outputs > inputs).
    """
    outputs, inputs = weight.shape
    by_intel = made_by_intel() and has_mkl
    if by_intel and rows > 1:
        return packed(weight, bias, rows)
    if not by_intel and rows > 1 and weight.numel() > SMALL and has_onednn:
        return in_blocks(weight, bias, rows)
    if not by_intel and outputs > inputs:  # lays the weights of one input side by side
        weight = weight.t().contiguous().t()
    if not vector:
        return partial(F.linear, weight=weight, bias=bias)
    # These calls take half of the time that `F.linear` takes besides multiplying.
    return partial(torch.mv, weight) if bias is None else partial(torch.addmv, bias, weight)


def stays(weight: Tensor) -> bool:
    """Returns True for weights to use as stored: off the CPU, not in float32, or under autocast."""
    other_kind = weight.device.type != "cpu" or weight.dtype != torch.float32
    return other_kind or torch.is_autocast_enabled("cpu")


def packed(weight: Tensor, bias: Tensor | None, rows: int) -> Product:
    """Returns a function that multiplies rows by the weight in the layout of Intel's MKL."""
    weight, inputs = weight.contiguous(), weight.shape[1]
    packed_weight = mkl._mkl_reorder_linear_weight(weight, rows)
    # PyTorch uses `F.linear` unless it is told the number of rows that come.
    return lambda x: mkl._mkl_linear(x, packed_weight, weight, bias, x.numel() // inputs)


def in_blocks(weight: Tensor, bias: Tensor | None, rows: int) -> Product:
    """Returns a function that multiplies rows by the weight in oneDNN's blocks, made only once."""
    blocked_weight = onednn._reorder_linear_weight(weight.contiguous(), rows)
    return lambda x: onednn._linear_pointwise(x, blocked_weight, bias, "none", [], "")


@cache
def made_by_intel() -> bool:
    """Returns True if the processor names Intel as its maker, in virtual machines too."""
    return "GenuineIntel" in (CPUINFO.read_text() if CPUINFO.exists() else platform.processor())
