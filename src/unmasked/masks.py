"""Who may attend to whom: boolean masks in which True means "may attend".

Every mask broadcasts to [batch, heads, queries, keys] and combines with others by `&`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .config import PADDING
from .errors import checked, contracts


@checked(contracts.padding_mask)
def padding_mask(tokens: Tensor, padding: int = PADDING) -> Tensor:
    """Every query may attend to the real tokens. [B, S] → [B, 1, 1, S]."""
    return (tokens != padding)[:, None, None, :]


@checked(contracts.causal_mask)
def causal_mask(n: int, *, past: int = 0, device: torch.device | str | None = None) -> Tensor:
    """Position i may attend to itself and to what came before: [n, past + n].

    With `past` keys already seen, the queries are the n positions that follow them.
    """
    return torch.ones(n, past + n, dtype=torch.bool, device=device).tril(past)


@checked(contracts.length_mask)
def length_mask(lengths: Tensor, n: int) -> Tensor:
    """The first `lengths` of n keys may be attended to.

    One length a row, [B] → [B, 1, 1, n], or one a query, [B, Q] → [B, 1, Q, n].
    """
    mask = torch.arange(n, device=lengths.device) < lengths[..., None]  # [B, n] or [B, Q, n]
    return mask[:, None, None, :] if lengths.dim() == 1 else mask[:, None]


# --- Bridges: the same information in the words of others -------------------------------------


@checked(contracts.from_blocked)
def from_blocked(blocked: Tensor) -> Tensor:
    """From masks where True means "hidden" (`key_padding_mask`), and back: its own inverse."""
    return ~blocked


@checked(contracts.from_ones)
def from_ones(ones: Tensor) -> Tensor:
    """From masks of ones and zeros, where 0 is hidden."""
    return ones != 0


@checked(contracts.from_additive)
def from_additive(additive: Tensor) -> Tensor:
    """From masks added to the scores: 0 is visible, minus infinity or a huge negative hidden."""
    return additive > -1e4


@checked(contracts.to_additive)
def to_additive(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """To a mask that is added to the scores: 0 where True, minus infinity elsewhere."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -torch.inf)
