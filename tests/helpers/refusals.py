"""Tests that are nothing but a table: calls, and how their errors begin."""

from collections.abc import Callable
from typing import Any

import pytest


def refusals(*rows: tuple[Callable[[], Any], str]) -> Callable[..., None]:
    """A test of each row: the call, and a pattern that the message of its ValueError begins with.

    test_what_cannot_be_drawn_is_refused = refusals((lambda: draw(0), "count: .* got 0"))
    """

    @pytest.mark.parametrize(("call", "message"), rows)
    def refused(call: Callable[[], Any], message: str) -> None:
        with pytest.raises(ValueError, match=f"^{message}"):
            call()

    return refused
