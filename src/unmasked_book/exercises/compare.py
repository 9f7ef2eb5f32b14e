"""Compares readers' answers with the expected numbers and tensors, and says what is wrong."""

import copy
import functools
import inspect
import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import torch
from torch import Tensor

Check = Callable[[Any], str | None]


class NoAnswerError(Exception):
    """A NoAnswerError says that an answer, or what a reader's function returns, is missing."""


def answering(answer: Any) -> Any:
    """Returns the answer; raises NoAnswerError if it, or later what it returns, is missing."""
    if answer is None or answer is ...:
        raise NoAnswerError
    if not callable(answer) or isinstance(answer, type):
        return answer

    @functools.wraps(answer)
    def call(*args: Any) -> Any:
        return answering(answer(*args))

    return call


def number(expected: float, tolerance: float = 0.0) -> Check:
    """Returns a Check that compares an answer with a number, within a relative tolerance."""
    return lambda answer: same_number(answer, expected, tolerance)


def function(
    name: str,
    right: Callable[..., Any],
    *cases: tuple[Any, ...],
    tolerance: float = 0.0,
    dots: bool = False,
) -> Check:
    """Returns a Check that compares what a reader's function and `right` return in each case.

    With `dots`, a function in which a `...` is left counts as no answer.
    """

    def check(answer: Callable[..., Any]) -> str | None:
        if dots and "Ellipsis" in repr(inspect.unwrap(answer).__code__.co_consts):
            raise NoAnswerError
        for case in cases:
            got, expected = answer(*copy.deepcopy(case)), right(*case)
            shown = [said(x) for x in case]
            called = f"{name}({', '.join(shown)})"
            if isinstance(expected, Tensor) and expected.dim():
                wrong = same_tensor(got, expected, called)
            elif isinstance(expected, list):
                wrong = None if got == expected else f"not yet: {called} is {got}, not {expected}."
            elif wrong := same_number(got, float(expected), tolerance):
                wrong = f"{wrong} That was {called}."
            if wrong:
                return wrong
        return None

    return check


def said(x: object) -> str:
    """Returns how a message names an argument."""
    if callable(x):
        return "model"
    return f"x {list(x.shape)}" if isinstance(x, Tensor) else str(x)


def same_form(got: object, expected: Tensor, case: str) -> str | None:
    """Returns what is wrong with a tensor's type, shape or dtype, or None."""
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
    """Returns what is wrong with a tensor, values only where `real` [B, T] is True, or None."""
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
