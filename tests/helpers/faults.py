"""A check of a mistake: it passes the sound version and refuses the faulty ones."""

import re

import pytest

from unmasked import plain
from unmasked_book.workshop import examine
from unmasked_book.workshop.mistakes import change
from unmasked_book.workshop.reference import piece


def told_apart(check, sound, *faulty, error=AssertionError):
    check(sound)
    for version in faulty:
        with pytest.raises(error):
            check(version)


def refused(step, *changes, said=""):
    """plain.py's piece is right; with each of these changes of its text, `old → new`, it is not."""
    assert examine(step, getattr(plain, step)).right
    for each in changes:
        verdict = examine(step, piece(step, (change(each),)))
        assert not verdict.right
        assert re.search(said, verdict.message), verdict.message
