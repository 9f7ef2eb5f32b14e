"""Makes tests from tables of calls and of how their errors begin."""

from collections.abc import Callable
from typing import Any

import pytest


def refusals(*rows: tuple[Callable[[], Any], str]) -> Callable[..., None]:
    """Returns a test that each call raises a ValueError whose message begins with a pattern.

    test_what_cannot_be_drawn_is_refused = refusals((lambda: draw(0), "count: .* got 0"))
    """

    @pytest.mark.parametrize(("call", "message"), rows)
    def refused(call: Callable[[], Any], message: str) -> None:
        with pytest.raises(ValueError, match=f"^{message}"):
            call()

    return refused
