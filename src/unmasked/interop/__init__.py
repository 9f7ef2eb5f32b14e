"""Weights to and from other libraries."""

from .marian import from_marian
from .torch import from_torch, to_torch, torch_masks

__all__ = ["from_marian", "from_torch", "to_torch", "torch_masks"]
