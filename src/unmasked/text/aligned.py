"""Holds two sentences and which of their words say the same."""

from typing import NamedTuple


class Pair(NamedTuple):
    """A Pair holds two sentences, in lower case and without a full stop, and their alignment."""

    german: str
    english: str
    alignment: frozenset[tuple[int, int]]  # (German word, English word) that say the same
    construction: str
