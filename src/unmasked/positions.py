"""Encodes the positions of tokens by the paper's sinusoids (section 3.5) or learned vectors."""

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from .errors import invalid, require_whole, require_wholes


def frequencies(d_model: int) -> Tensor:
    """Returns the angle by which column pair i turns per position: 10000^(-2i/d_model)."""
    require_whole("d_model", d_model)
    return 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)


def sinusoids(start: int, length: int, d_model: int) -> Tensor:
    """Returns sines (even columns) and cosines (odd) of positions from `start`: [length, d_model].

    They are float64: in float32 the angles of position 10,000 would be off by up to 0.0005.
    """
    position = torch.arange(start, start + length, dtype=torch.float64)
    angle = position[:, None] * frequencies(d_model)  # [length, ceil(d_model / 2)]
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]


def shift_matrix(d_model: int, shift: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Returns M, with PE(p + shift) = M @ PE(p) for sinusoids PE of each p: [d_model, d_model]."""
    if d_model % 2:
        fix = "the last sine of an odd width has no cosine to be turned with"
        raise invalid("d_model", "an even width", d_model, fix)
    angle = shift * frequencies(d_model)
    sine, cosine = angle.sin(), angle.cos()
    turns = torch.stack([cosine, sine, -sine, cosine], dim=-1).view(-1, 2, 2)
    return torch.block_diag(*turns).to(dtype)


class SinusoidalPositions(nn.Module):
    """This module adds sinusoids to [B, T, D]; those beyond `max_len` are computed when needed."""

    table: Tensor

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        require_wholes(d_model=(d_model, 1), max_len=(max_len, 1))
        super().__init__()
        self.d_model = d_model
        table = torch.empty(max_len, d_model)
        if not table.is_meta:
            table = sinusoids(0, max_len, d_model).to(table)
        self.register_buffer("table", table, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Recomputes the sinusoids when the module is converted, so none is rounded twice."""
        before = self.table
        super()._apply(fn, recurse)
        if self.table is not before:
            self.table = sinusoids(0, len(before), self.d_model).to(self.table)
        return self

    def rows(self, length: int, start: int = 0) -> Tensor:
        """Returns the encodings of `length` positions from `start`: [length, d_model]."""
        if start + length <= len(self.table):
            return self.table[start : start + length]
        return sinusoids(start, length, self.d_model).to(self.table)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:  # [B, T, D] → [B, T, D]
        return x + self.rows(x.shape[1], start).to(x.dtype)


class LearnedPositions(nn.Module):
    """This module adds a trained vector for each position, at most `max_len`, to [B, T, D]."""

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        require_wholes(d_model=(d_model, 1), max_len=(max_len, 1))
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.xavier_uniform_(self.table)

    def rows(self, length: int, start: int = 0) -> Tensor:
        """Returns the encodings of `length` positions from `start`: [length, d_model]."""
        if start + length > len(self.table):
            fix = "raise max_len and train again, or use positions='sinusoidal'"
            expected = f"positions below max_len={len(self.table)}"
            raise invalid("positions", expected, f"position {start + length - 1}", fix)
        return self.table.narrow(0, start, length)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:  # [B, T, D] → [B, T, D]
        return x + self.rows(x.shape[1], start)
