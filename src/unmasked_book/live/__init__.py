"""Runs the trained model, and three figures to explore, in a reader's browser."""

from unmasked_book.live.explore import explore_beam, explore_masks, explore_positions
from unmasked_book.live.translator import live

__all__ = ["explore_beam", "explore_masks", "explore_positions", "live"]
