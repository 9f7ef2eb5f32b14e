"""A check of a mistake: it passes the sound version and refuses the faulty ones."""

from collections.abc import Callable
from typing import Any

import pytest


def told_apart(
    check: Callable[[Any], None],
    sound: Any,
    *faulty: Any,
    error: type[Exception] = AssertionError,
) -> None:
    check(sound)
    for version in faulty:
        with pytest.raises(error):
            check(version)
