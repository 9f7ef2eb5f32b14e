"""What only the book's pages need: examples, exercises, experiments and recorded runs."""

from .records import recorded
from .source import show

__all__ = ["recorded", "show"]
