"""Whether there is an answer yet, and what is said of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch import nn


class NoAnswerError(Exception):
    """The reader's function returned nothing yet."""


def verdict(check: Callable[[Any], str | None], answer: Any) -> str:
    """What a check says of an answer: right, wrong and why, or nothing to be checked yet."""
    try:
        return check(answering(answer)) or "right."
    except NoAnswerError:
        return "your turn."
    except Exception as error:  # a reader's mistake is news for the reader, not a traceback
        return f"not yet: it stops with {type(error).__name__}: {error}"


def answering(answer: Any) -> Any:
    """The answer, if there is one; a function or class that insists on returning something."""
    if answer is None or answer is ...:
        raise NoAnswerError
    if isinstance(answer, type) and issubclass(answer, nn.Module):
        return insisting(answer)
    if not callable(answer) or isinstance(answer, nn.Module):
        return answer

    @functools.wraps(answer)
    def call(*args: Any) -> Any:
        return answering(answer(*args))

    return call


def insisting(kind: type[nn.Module]) -> type[nn.Module]:
    """A reader's class of modules, whose forward insists on returning something."""
    if kind.__init__ is nn.Module.__init__ or kind.forward is nn.Module.forward:
        raise NoAnswerError

    def forward(self: nn.Module, *args: Any) -> Any:
        return answering(kind.forward(self, *args))

    return type(kind.__name__, (kind,), {"forward": forward})
