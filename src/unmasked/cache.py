"""Keys and values that are remembered from step to step."""

from __future__ import annotations

import torch
from torch import Tensor

from .validation import check_at_least, invalid


class KeyValueCache:
    """The keys and values seen so far, so that a new token needs only its own.

    Room is made ahead of need and doubled when it runs out: growing costs no copy at each step.
    A `fixed` cache is filled once (the encoder's memory) and then only read.
    """

    def __init__(self, capacity: int = 32, *, fixed: bool = False) -> None:
        check_at_least("capacity", capacity, 1)
        self.capacity, self.fixed, self.length = capacity, fixed, 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def read(self) -> tuple[Tensor, Tensor]:
        """All keys and values, twice [B, H, length, K]."""
        if self._keys is None or self._values is None:
            fix = "append keys and values first"
            raise invalid("cache", "keys and values to read", "an empty cache", fix)
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    @property
    def filled(self) -> bool:
        return self.fixed and self.length > 0

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Adds [B, H, n, K] and returns all that is there now: [B, H, length, K]."""
        if self._keys is not None and self._keys.shape[:2] != keys.shape[:2]:
            expected = f"[batch, heads] = {list(self._keys.shape[:2])} as in the cache"
            fix = "begin a new cache for other sentences"
            raise invalid("keys", expected, list(keys.shape[:2]), fix)
        past, self.length = self.length, self.length + keys.shape[2]
        if self.fixed or (torch.is_grad_enabled() and keys.requires_grad):
            self._keys = _joined(self._keys, keys, past)  # a gradient needs the past as it was
            self._values = _joined(self._values, values, past)
            return self._keys, self._values
        if self._keys is None or self.length > self._keys.shape[2]:
            self.capacity = max(self.length, 2 * self.capacity if past else self.capacity)
            self._keys = self._grown(self._keys, keys, past)
            self._values = self._grown(self._values, values, past)
        assert self._values is not None
        self._keys[:, :, past : self.length] = keys
        self._values[:, :, past : self.length] = values
        return self.read()

    def _grown(self, old: Tensor | None, like: Tensor, past: int) -> Tensor:
        new = like.new_empty(*like.shape[:2], self.capacity, like.shape[3])
        if old is not None:
            new[:, :, :past] = old[:, :, :past]
        return new

    def select(self, rows: Tensor) -> None:
        """Keeps only these rows of the batch."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[rows], self._values[rows]


def _joined(old: Tensor | None, new: Tensor, past: int) -> Tensor:
    return new if old is None else torch.cat([old[:, :, :past], new], dim=2)
