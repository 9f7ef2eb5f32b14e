"""Weights to and from other libraries."""

from .torch import from_torch, to_torch, torch_masks

__all__ = ["from_torch", "to_torch", "torch_masks"]
