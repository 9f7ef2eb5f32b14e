"""Keys and values that are remembered from step to step."""

from __future__ import annotations

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

    @property
    def keys(self) -> Tensor:
        return self._read(self._keys)

    @property
    def values(self) -> Tensor:
        return self._read(self._values)

    def _read(self, store: Tensor | None) -> Tensor:
        if store is None:
            fix = "append keys and values first"
            raise invalid("cache", "keys and values to read", "an empty cache", fix)
        return store[:, :, : self.length]  # [B, H, length, K]

    @property
    def filled(self) -> bool:
        return self.fixed and self.length > 0

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Adds [B, H, n, K] and returns all that is there now: [B, H, length, K]."""
        start, self.length = self.length, self.length + keys.shape[2]
        if self.fixed:
            self._keys, self._values = keys, values
            return keys, values
        if self._keys is None or self.length > self._keys.shape[2]:
            self.capacity = max(self.length, self.capacity if start == 0 else 2 * self.capacity)
            self._keys = self._grown(self._keys, keys, start)
            self._values = self._grown(self._values, values, start)
        assert self._values is not None
        self._keys[:, :, start : self.length] = keys
        self._values[:, :, start : self.length] = values
        return self.keys, self.values

    def _grown(self, old: Tensor | None, like: Tensor, length: int) -> Tensor:
        new = like.new_empty(*like.shape[:2], self.capacity, like.shape[3])
        if old is not None:
            new[:, :, :length] = old[:, :, :length]
        return new

    def select(self, rows: Tensor) -> None:
        """Keeps only these rows of the batch."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[rows], self._values[rows]
