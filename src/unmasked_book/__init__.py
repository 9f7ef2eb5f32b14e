"""Holds what only the book's pages need: examples, exercises, experiments and recorded runs."""

from unmasked_book.records import recorded

__all__ = ["recorded"]
