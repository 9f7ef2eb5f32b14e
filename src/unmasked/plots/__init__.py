"""Offers functions that draw figures, each with a description in words."""

from .grids import attention_maps, batch_masks, batches, masks, matrices, sentence_maps
from .lines import bars, curves
from .picture import Picture
from .viewer import attention_view

__all__ = [
    "Picture",
    "attention_maps",
    "attention_view",
    "bars",
    "batch_masks",
    "batches",
    "curves",
    "masks",
    "matrices",
    "sentence_maps",
]
