"""Attention maps: what collects them, and the call that hands them out."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor, nn


class AttentionMaps(NamedTuple):
    """The weights of every layer, each [B, H, queries, keys]."""

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]

    @classmethod
    def empty(cls) -> AttentionMaps:
        """To be passed as `maps` and filled on the way."""
        return cls([], [], [])


class Mapped(nn.Module):
    """A model whose call says what it attended to: `model(…, need_weights=True)` → output, maps.

    Its `forward` takes an `AttentionMaps` as `maps`, and returns the output alone.
    """

    def __call__(self, *args: Any, need_weights: bool = False, **options: Any) -> Any:
        if not need_weights:
            return super().__call__(*args, **options)
        maps = AttentionMaps.empty()
        return super().__call__(*args, maps=maps, **options), maps
