"""Makes tests that reject the faulty versions of a piece of code."""

import re

import pytest

from unmasked_book.faulty import changes_of
from unmasked_book.workshop import examine
from unmasked_book.workshop.reference import piece


def told_apart(check, sound, *faulty, error=AssertionError):
    """Fails unless the check passes for the sound version and fails for each faulty one."""
    check(sound)
    for version in faulty:
        with pytest.raises(error):
            check(version)


def refused(*changes, said=""):
    """Returns a test that the workshop refuses changes of plain.py, written as in faults.txt."""

    def test():
        for each in changes:
            step, made = changes_of(each)
            verdict = examine(step, piece(step, made))
            assert not verdict.right
            assert re.search(said, verdict.message), verdict.message

    return test
