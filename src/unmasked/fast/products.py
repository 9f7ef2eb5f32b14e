"""Products of a few rows with the same matrices, again and again: the steps of a search.

On a CPU such a product takes as long as reading the matrix, and how it lies in memory decides.
PyTorch's own layout, one output's weights after the other, suits many rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

Product = Callable[[Tensor], Tensor]
SMALL = 1 << 17  # weights: half a megabyte
onednn = torch.ops.mkldnn  # the library's old name; what PyTorch's own compiler calls


def product(weight: Tensor, bias: Tensor | None, rows: int) -> Product:
    """`F.linear` with these weights, laid out for about so many rows.

    One row: input by input where there are more outputs than inputs (up to 2.7 × as fast). Several:
    in the blocks of oneDNN, which `F.linear` would make anew in each call (up to 2 × as fast); for
    small matrices that gains nothing.
    """
    outputs, inputs = weight.shape
    if weight.device.type == "cpu" and weight.dtype == torch.float32:
        if rows > 1 and weight.numel() > SMALL and has_onednn():
            blocks = onednn._reorder_linear_weight(weight.contiguous(), rows)
            return lambda x: onednn._linear_pointwise(x, blocks, bias, "none", [], "")
        if outputs > inputs:
            weight = weight.t().contiguous().t()
    return partial(F.linear, weight=weight, bias=bias)


def has_onednn() -> bool:
    names = ("_reorder_linear_weight", "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and all(hasattr(onednn, name) for name in names)
