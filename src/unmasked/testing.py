"""Makes tests for pytest of what `unmasked.check` asks: one line in a test file, a test a property.

test_my_gpt = sound(lambda: GPT(), forward, vocab=61, step=step)
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from torch import nn

from .checking.check import check
from .checking.report import CLAIMS, Report


def assert_sound(model: nn.Module, forward: Any = None, **options: Any) -> None:
    """Raises AssertionError with the report if `unmasked.check` finds a fault."""
    report = check(model, forward, quiet=True, **options)
    assert report.ok, f"\n{report}"


def sound(make: Callable[[], nn.Module], forward: Any = None, **options: Any) -> Any:
    """Returns a test with a case for each property; those that are not asked are skipped."""

    @cache
    def report() -> Report:
        return check(make(), forward, quiet=True, **options)

    @pytest.mark.parametrize("name", CLAIMS)
    def test(name: str) -> None:
        finding = next((each for each in report().findings if each.property == name), None)
        if finding is None or finding.verdict in ("not offered", "unclear"):
            pytest.skip(finding.what if finding else "not a question to this kind of model")
        assert finding.verdict != "fault", f"{finding.what}\n{finding.advice}"

    return test
