"""Makes and converts boolean masks, in which True means "may attend".

Every mask broadcasts to [batch, heads, queries, keys] and combines with others by `&`.
"""

import torch
from torch import Tensor

from .errors import invalid, require_boolean, require_tokens, require_type, require_wholes, shape
from .tokens import PADDING


def padding_mask(tokens: Tensor, padding: int = PADDING) -> Tensor:
    """Returns a mask that hides padding from every query: tokens [B, S] → [B, 1, 1, S]."""
    require_tokens("tokens", tokens)
    return (tokens != padding)[:, None, None, :]


def causal_mask(n: int, *, past: int = 0, device: torch.device | str | None = None) -> Tensor:
    """Returns the mask [n, past + n] that hides later keys from n queries, behind `past` more."""
    require_wholes(n=(n, 1), past=(past, 0))
    return torch.ones(n, past + n, dtype=torch.bool, device=device).tril(past)


def length_mask(lengths: Tensor, n: int) -> Tensor:
    """Returns a mask of each row's first keys of n: [B] → [B, 1, 1, n], [B, T] → [B, 1, T, n]."""
    require_lengths(lengths, n)
    mask = torch.arange(n, device=lengths.device) < lengths[..., None]  # [B, n] or [B, T, n]
    return mask[:, None, None, :] if lengths.dim() == 1 else mask[:, None]


def require_lengths(lengths: Tensor, n: int) -> None:
    require_wholes(n=(n, 1))
    require_type("lengths", lengths, Tensor)
    if lengths.dim() not in (1, 2):
        fix = "give one length a row, or one a query"
        raise invalid("lengths", "rank 1, [batch], or 2, [batch, queries]", shape(lengths), fix)
    if lengths.dtype.is_floating_point or lengths.dtype == torch.bool:
        fix = "lengths count tokens: convert with .long()"
        raise invalid("lengths", "whole numbers", lengths.dtype, fix)
    if lengths.device.type == "cpu" and bool(((lengths < 0) | (lengths > n)).any()):
        got = f"{int(lengths.min())} to {int(lengths.max())}"
        raise invalid("lengths", f"lengths from 0 to {n}", got, "n is the length with padding")


# --- Other conventions ------------------------------------------------------------------------


def from_blocked(blocked: Tensor) -> Tensor:
    """Inverts a mask where True means "hidden", such as PyTorch's `key_padding_mask`, or back."""
    require_boolean("blocked", blocked, "convert it: blocked != 0")
    return ~blocked


def from_ones(ones: Tensor) -> Tensor:
    """Converts a mask of ones and zeros, where 0 means "hidden", to a boolean one."""
    require_type("ones", ones, Tensor)
    if not ((ones == 0) | (ones == 1)).all():
        raise invalid("ones", "ones and zeros", "others", "for minus infinity use from_additive")
    return ones != 0


def from_additive(additive: Tensor) -> Tensor:
    """Converts a mask that is added to scores, where -inf or a huge negative hides, to booleans."""
    require_type("additive", additive, Tensor)
    if not additive.dtype.is_floating_point:
        fix = "an additive mask holds 0 and minus infinity; for ones and zeros use from_ones"
        raise invalid("additive", "a floating-point tensor", additive.dtype, fix)
    if (additive > 0).any():
        fix = "for ones and zeros use from_ones"
        raise invalid("additive", "0, or what hides", f"{additive.max():g}", fix)
    return additive > -1e4


def to_additive(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Returns a mask to add to scores: 0 where `mask` is True, minus infinity elsewhere."""
    require_boolean("mask", mask)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -torch.inf)
