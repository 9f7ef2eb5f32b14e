"""Attention through PyTorch's fused kernels, which never store the [Q, S] weights."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scale: float
) -> Tensor:
    """As `attention.attention`: a query that may attend to nothing gets zeros."""
    if slow_backward(query, key):
        with torch.autocast(query.device.type, enabled=False):
            q, k, v = query.float(), key.float(), value.float()
            return fused_attention(q, k, v, mask, dropout, scale).to(value.dtype)
    if mask is None:
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, scale=scale)
    mask = mask.view(1, -1) if mask.dim() < 2 else mask
    # Kernels differ in what they do with rows that see nothing, so none of them gets to see one.
    sees = mask.any(-1, keepdim=True)
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask | ~sees, dropout_p=dropout, scale=scale
    )
    return output.masked_fill(~sees, 0.0)


def slow_backward(query: Tensor, key: Tensor) -> bool:
    """On a CPU the kernel's backward for short rows of bfloat16 takes six times float32's."""
    halves = query.dtype == torch.bfloat16 and query.device.type == "cpu"
    return halves and query.requires_grad and key.shape[-2] <= 256
