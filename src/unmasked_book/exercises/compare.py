"""Whether there is an answer, how it is compared with the expected one, and what is then said."""

import copy
import functools
import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import torch
from torch import Tensor

Check = Callable[[Any], str | None]


class NoAnswerError(Exception):
    """The reader's function returned nothing yet."""


def verdict(check: Check, answer: Any) -> str:
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


def number(expected: float, tolerance: float = 0.0) -> Check:
    """A check of one number."""
    return lambda answer: same_number(answer, expected, tolerance)


def function(
    name: str, right: Callable[..., Any], *cases: tuple[Any, ...], tolerance: float = 0.0
) -> Check:
    """A check of a function: in each case it should give what `right` gives."""

    def check(answer: Callable[..., Any]) -> str | None:
        for case in cases:
            got, expected = answer(*copy.deepcopy(case)), right(*case)
            shown = [f"x {list(x.shape)}" if isinstance(x, Tensor) else str(x) for x in case]
            called = f"{name}({', '.join(shown)})"
            if isinstance(expected, Tensor):
                wrong = same_tensor(got, expected, called)
            elif isinstance(expected, list):
                wrong = None if got == expected else f"not yet: {called} is {got}, not {expected}."
            elif wrong := same_number(got, expected, tolerance):
                wrong = f"{wrong} That was {called}."
            if wrong:
                return wrong
        return None

    return check


def same_form(got: object, expected: Tensor, case: str) -> str | None:
    """What is wrong with a tensor before one looks at its values."""
    if not isinstance(got, Tensor):
        return f"not yet: {case} should be a tensor and is a {type(got).__name__}."
    if got.shape != expected.shape:
        return f"not yet: {case} has shape {list(got.shape)}, not {list(expected.shape)}."
    if (got.dtype == torch.bool) != (expected.dtype == torch.bool):
        return f"not yet: {case} has the type {got.dtype}, not {expected.dtype}."
    return None


def same_tensor(
    got: Any, expected: Tensor, case: str, atol: float = 1e-5, real: Tensor | None = None
) -> str | None:
    """What is wrong with a tensor, in the order in which one would look for it.

    Where words [B, T] are not real, it may hold anything.
    """
    if wrong := same_form(got, expected, case):
        return wrong
    close = torch.isclose(got.double(), expected.double(), atol=atol, equal_nan=True)
    if real is not None:
        close |= ~real[..., None]
    if not close.all():
        place = (~close).nonzero()[0].tolist()
        values = f"{got[tuple(place)].item()}, not {expected[tuple(place)].item()}"
        return f"not yet: {case} holds {values} at {place}."
    return None


def same_number(got: object, expected: float, tolerance: float = 0.0) -> str | None:
    if isinstance(got, Tensor) and got.numel() == 1:
        got = got.item()
    if not isinstance(got, Real):
        return f"not yet: a number is asked for, and this is a {type(got).__name__}."
    value = float(got)
    if math.isnan(value):
        return "not yet: this is not a number (NaN)."
    if abs(value - expected) > tolerance * abs(expected):
        return f"not yet: {got:,} is too {'low' if value < expected else 'high'}."
    return None
