"""Provides quick dropout on a CPU, attention by fused kernels, and selection of rows by index."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .errors import require_probability

# --- Dropout ----------------------------------------------------------------------------------

# `torch.nn.Dropout` draws one number for each element; on a CPU this takes longer than the layer
# around it. Sixteen random bits an element are enough, and one 64-bit number holds four of them.
LEVELS = 1 << 16  # what sixteen bits can tell apart


def keep_mask(x: Tensor, p: float) -> Tensor:
    """Returns a random tensor like x: 0 with probability p, and 1 / (1 - p) otherwise."""
    dropped = min(round(p * LEVELS), LEVELS - 1)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device)
    bits = words.random_(-(1 << 63), None).view(torch.int16)[: x.numel()].view(x.shape)
    return (bits >= dropped - LEVELS // 2).to(x.dtype).mul_(LEVELS / (LEVELS - dropped))


def dropout(x: Tensor, p: float) -> Tensor:
    """Returns x with elements set to 0 with probability p, and the others divided by 1 - p."""
    if p == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p)
    return x * keep_mask(x, p)


class Dropout(nn.Module):
    """This module applies `dropout` in training, and returns x unchanged in evaluation."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        require_probability("dropout", p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        return f"p={self.p}"


# --- Attention --------------------------------------------------------------------------------


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    dropout: float,
    scale: float,
) -> Tensor:
    """Computes attention by PyTorch's fused kernels, which never store the [T, S] weights."""
    # On a CPU their backward pass for short rows of bfloat16 takes six times as long as float32's.
    short = query.dtype == torch.bfloat16 and key.shape[-2] <= 256
    if short and query.is_cpu and query.requires_grad:
        with torch.autocast(query.device.type, enabled=False):
            q, k, v = query.float(), key.float(), value.float()
            return fused_attention(q, k, v, mask, bias, dropout, scale).to(value.dtype)
    added = bias if bias is None else bias.to(query.dtype)
    sees = None
    if mask is not None:
        mask = mask.view(1, -1) if mask.dim() < 2 else mask
        # Kernels differ in what they do with a query that sees no key, so such a query sees all.
        sees = mask.any(-1, keepdim=True)
        seen = mask | ~sees
        added = seen if added is None else added.masked_fill(~seen, -torch.inf)
    output = F.scaled_dot_product_attention(query, key, value, added, dropout, scale=scale)
    return output if sees is None else output.masked_fill(~sees, 0.0)


def quicker_by_hand(query: Tensor, dropout: float) -> bool:
    """Returns True if plain products beat a fused kernel: on a CPU, for one query or dropout."""
    return query.is_cpu and (dropout > 0.0 or (query.shape[-2] == 1 and query.shape[0] > 1))


# --- Rows -------------------------------------------------------------------------------------


def take(x: Tensor, index: Tensor) -> Tensor:
    """Selects rows of each batch element: x [B, N, T], index [B, M] → [B, M, T]."""
    return x.gather(1, index[:, :, None].expand(-1, -1, x.shape[-1]))
