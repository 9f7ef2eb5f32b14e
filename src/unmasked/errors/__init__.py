"""Errors that say what to do: a wrong argument is a ValueError of one shape, made here.

The rules of the model, its loss and its searches are in `contracts.py`.
"""

from __future__ import annotations

import functools
import inspect
import math
import threading
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor


def invalid(argument: str, expected: str, got: object, fix: str) -> ValueError:
    """The one shape of our messages: which argument, what was expected, what came, what to do."""
    return ValueError(f"{argument}: expected {expected}, got {got}; {fix}")


def printable(text: str) -> str:
    """One line for a terminal, of bounded length, with what would command it written out."""
    line = " ".join(text.split())
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line[:500])
    return shown + "…" * (len(line) > 500)


def shown(value: object) -> str:
    try:
        return printable(repr(value))
    except ValueError:  # Python does not write numbers of many thousand digits
        return f"a very long {type(value).__name__}"


def shape(x: Tensor) -> str:
    return f"[{', '.join(map(str, x.shape))}]"


# --- The boundary -----------------------------------------------------------------------------

P = ParamSpec("P")
R = TypeVar("R")


class Boundary(threading.local):
    """Whether this thread is inside a call that has been checked."""

    crossed = False


BOUNDARY = Boundary()


def checked(contract: Callable[..., None]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Shows arguments to a contract first, by name: once, where a call comes in from outside.

    What a checked function passes on to others is not asked again, so its contract looks at all of
    it. Under torch.compile nothing is asked.
    """
    needed = list(inspect.signature(contract).parameters)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if torch.compiler.is_compiling() or BOUNDARY.crossed:
                return function(*args, **kwargs)
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            contract(**{name: given.arguments[name] for name in needed})
            try:
                BOUNDARY.crossed = True
                return function(*args, **kwargs)
            finally:
                BOUNDARY.crossed = False

        return call

    return decorate


# --- Numbers, choices, types ------------------------------------------------------------------


def check_type(argument: str, value: object, *kinds: type) -> None:
    if not isinstance(value, kinds):
        expected = " or ".join(f"a {kind.__name__}" for kind in kinds)
        raise invalid(argument, expected, type(value).__name__, "pass one")


def check_choice(argument: str, value: object, choices: Sequence[object]) -> None:
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        allowed = " or ".join(repr(choice) for choice in choices)
        raise invalid(argument, allowed, repr(value), "choose one of these")


def check_at_least(argument: str, value: object, least: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        fix = f"pass {least} or more"
        raise invalid(argument, f"a whole number of at least {least}", repr(value), fix)


def check_seed(value: Any) -> None:
    check_at_least("seed", value, 0)
    if value >= 2**32:
        raise invalid("seed", "a number below 2**32", value, "choose a smaller one")


def check_heads_divide(d_model: int, n_heads: int) -> None:
    check_at_least("d_model", d_model, 1)
    check_at_least("n_heads", n_heads, 1)
    if d_model % n_heads:
        fix = "every head takes an equal share of the width"
        raise invalid("n_heads", f"a divisor of d_model={d_model}", n_heads, fix)


def check_number(argument: str, value: object, low: float, high: float, fix: str) -> None:
    if not low <= as_float(value) <= high:
        expected = f"a number from {low:g} to {high:g}" if high < math.inf else f"{low:g} or more"
        raise invalid(argument, expected, shown(value), fix)


def check_probability(argument: str, value: object) -> None:
    if not 0.0 <= as_float(value) < 1.0:
        fix = "1 would leave nothing, so stay below it"
        raise invalid(argument, "a probability in [0, 1)", shown(value), fix)


def as_float(value: object) -> float:
    """NaN for what is no number, or one that no float can hold."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def check_text(argument: str, value: object) -> None:
    """Text that can be written down: bytes that are no UTF-8 come as lone surrogates."""
    if not isinstance(value, str):
        raise invalid(argument, "a text", type(value).__name__, "decode it, or leave it out")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        got = f"what is none at character {error.start + 1}"
        raise invalid(argument, "text in Unicode", got, "save or type it as UTF-8") from None


# --- Tensors ----------------------------------------------------------------------------------


def check_tokens(argument: str, tokens: Tensor, vocabulary: int | None = None) -> None:
    """Token numbers: integers [batch, length], neither of them 0, all below `vocabulary`."""
    if not isinstance(tokens, Tensor):
        fix = "wrap it with torch.tensor(...)"
        raise invalid(argument, "a tensor of token numbers", type(tokens).__name__, fix)
    if tokens.dtype not in (torch.int64, torch.int32):
        fix = "token numbers index a table: convert with .long()"
        raise invalid(argument, "integers (torch.int64 or torch.int32)", tokens.dtype, fix)
    if tokens.dim() != 2:
        fix = "a single sentence needs a batch dimension too: tokens.unsqueeze(0)"
        raise invalid(argument, "rank 2, [batch, length]", f"shape {shape(tokens)}", fix)
    if 0 in tokens.shape:
        fix = "drop empty batches and give empty sentences at least one token"
        raise invalid(argument, "at least one row and one token", f"shape {shape(tokens)}", fix)
    # Looking at values would make an accelerator wait and torch.compile break its graph.
    if vocabulary is None or torch.compiler.is_compiling() or tokens.device.type != "cpu":
        return
    lowest, highest = (int(x) for x in tokens.aminmax())
    if lowest < 0 or highest >= vocabulary:
        wrong = lowest if lowest < 0 else highest
        fix = "enlarge the vocabulary in the configuration, or map unknown words to a known token"
        raise invalid(argument, f"tokens from 0 to {vocabulary - 1}", f"token {wrong}", fix)


def check_vectors(argument: str, x: Tensor, width: int, batch: int | None = None) -> None:
    """Vectors [batch, length, width]."""
    check_type(argument, x, Tensor)
    if x.dim() != 3:
        fix = "add the missing dimension with .unsqueeze, or pass tokens through the embedding"
        raise invalid(argument, f"rank 3, [batch, length, {width}]", f"shape {shape(x)}", fix)
    if x.shape[-1] != width:
        fix = "the module and its input must agree on the width"
        raise invalid(argument, f"vectors of width {width}", f"shape {shape(x)}", fix)
    if 0 in x.shape:
        fix = "drop empty batches and empty sequences"
        raise invalid(argument, "at least one row and one position", f"shape {shape(x)}", fix)
    if batch is not None and x.shape[0] != batch:
        fix = "both sides must hold the same sentences"
        raise invalid(argument, f"a batch of {batch}", x.shape[0], fix)


def check_boolean(argument: str, mask: Tensor) -> None:
    check_type(argument, mask, Tensor)
    if mask.dtype != torch.bool:
        fix = "True means 'may attend': see masks.from_ones, from_blocked and from_additive"
        raise invalid(argument, "a boolean tensor", mask.dtype, fix)


def check_mask(argument: str, mask: Tensor, scores: Sequence[int]) -> None:
    """A boolean mask that broadcasts to the shape of the attention scores."""
    check_boolean(argument, mask)
    trailing = tuple(scores)[len(scores) - mask.dim() :]
    pairs = zip(mask.shape, trailing, strict=False)
    if mask.dim() > len(scores) or not all(m == 1 or m == s for m, s in pairs):
        expected = f"a shape that broadcasts to the scores' {list(scores)}"
        fix = "its last two dimensions are queries and keys; a mask per row is [batch, 1, 1, keys]"
        raise invalid(argument, expected, shape(mask), fix)
