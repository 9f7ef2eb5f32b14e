"""Defines a pair of a German and an English sentence, with the words that correspond."""

from typing import NamedTuple


class Pair(NamedTuple):
    """A Pair holds two sentences, in lower case, without a full stop, and their word alignment."""

    german: str
    english: str
    alignment: frozenset[tuple[int, int]]  # (German word, English word) that say the same
    construction: str
