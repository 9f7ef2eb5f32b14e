"""Whether there is an answer yet, and what is said of it."""

import functools
from collections.abc import Callable
from typing import Any


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
    """The answer, if there is one; a function that insists on returning something."""
    if answer is None or answer is ...:
        raise NoAnswerError
    if not callable(answer) or isinstance(answer, type):
        return answer

    @functools.wraps(answer)
    def call(*args: Any) -> Any:
        return answering(answer(*args))

    return call
