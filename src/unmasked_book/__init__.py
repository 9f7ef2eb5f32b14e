"""What only the book's pages need: examples, exercises, experiments and recorded runs."""

from unmasked_book.records import recorded
from unmasked_book.source import show

__all__ = ["recorded", "show"]
