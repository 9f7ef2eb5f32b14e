"""These helpers raise a ValueError that says which argument is wrong, and what to do.

Public functions call them in their first lines. Under torch.compile, token IDs go unchecked.
"""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor


def invalid(argument: str, expected: str, got: object, fix: str) -> ValueError:
    """Returns a ValueError that says which argument is wrong, what was expected, and what to do."""
    return ValueError(f"{argument}: expected {expected}, got {got}; {fix}")


class RefusedError(ValueError):
    """Says that an undamaged file cannot be used here, so that nobody reports it as damaged."""


def printable(text: str) -> str:
    """Returns the text on one line, cut to 500 characters, with control characters escaped."""
    line = " ".join(text.split())
    return written_out(line[:500]) + "…" * (len(line) > 500)


def written_out(text: str) -> str:
    """Returns the text with escapes for characters that are not printable, and so safe to print."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shown(value: object) -> str:
    return printable(repr(value))


def shape(x: Tensor) -> str:
    return f"[{', '.join(map(str, x.shape))}]"


# --- Numbers, choices, types ------------------------------------------------------------------


def require_type(argument: str, value: object, *kinds: type) -> None:
    if not isinstance(value, kinds):
        names = [kind.__name__ for kind in kinds if kind is not type(None)]
        expected = " or ".join(f"an {n}" if n[0] in "AEIOU" else f"a {n}" for n in names)
        raise invalid(argument, expected, type(value).__name__, "pass one")


def require_choice(argument: str, value: object, choices: Sequence[object]) -> None:
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        allowed = " or ".join(repr(choice) for choice in choices)
        raise invalid(argument, allowed, repr(value), "choose one of these")


def require_whole(argument: str, value: object, least: int = 1, most: int | None = None) -> None:
    if torch.compiler.is_compiling():  # where sizes may be symbols
        return
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        fix = f"pass {least} or more"
        raise invalid(argument, f"a whole number of at least {least}", shown(value), fix)
    if most is not None and int(value) > most:
        raise invalid(argument, f"at most {most:,}", shown(value), "choose a smaller one")


def require_seed(value: object) -> None:
    require_whole("seed", value, 0, 2**32 - 1)


def require_wholes(**bounds: tuple[object, int]) -> None:
    """Raises ValueError unless each argument, name=(value, least), is a whole number ≥ least."""
    for argument, (value, least) in bounds.items():
        require_whole(argument, value, least)


def require_heads(d_model: int, n_heads: int) -> None:
    require_wholes(d_model=(d_model, 1), n_heads=(n_heads, 1))
    if d_model % n_heads:
        fix = "every head takes an equal share of the width"
        raise invalid("n_heads", f"a divisor of d_model={d_model}", n_heads, fix)


def is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def require_number(argument: str, value: Any, low: float, high: float, fix: str) -> None:
    if not (is_number(value) and low <= value <= high):
        expected = f"a number from {low:g} to {high:g}" if high < math.inf else f"{low:g} or more"
        raise invalid(argument, expected, shown(value), fix)


def require_probability(argument: str, value: Any) -> None:
    if not (is_number(value) and 0.0 <= value < 1.0):
        fix = "1 would leave nothing, so stay below it"
        raise invalid(argument, "a probability in [0, 1)", shown(value), fix)


def require_text(argument: str, value: object) -> None:
    """Raises ValueError unless the value is a text that UTF-8 can encode."""
    if not isinstance(value, str):
        raise invalid(argument, "a text", type(value).__name__, "decode it, or leave it out")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        got = f"what is none at character {error.start + 1}"
        raise invalid(argument, "text in Unicode", got, "save or type it as UTF-8") from None


# --- Tensors ----------------------------------------------------------------------------------


def require_tokens(argument: str, tokens: Tensor, vocabulary: int | None = None) -> None:
    """Raises ValueError unless the tokens are integers [batch, length] below `vocabulary`."""
    require_type(argument, tokens, Tensor)
    if tokens.dtype not in (torch.int64, torch.int32):
        fix = "token numbers index a table: convert with .long()"
        raise invalid(argument, "integers (torch.int64 or torch.int32)", tokens.dtype, fix)
    if tokens.dim() != 2 or 0 in tokens.shape:
        fix = "a single sentence needs a batch dimension too: tokens.unsqueeze(0)"
        raise invalid(argument, "[batch, length], neither 0", f"shape {shape(tokens)}", fix)
    # Reading values would make an accelerator wait, and torch.compile break its graph.
    if vocabulary is None or torch.compiler.is_compiling() or tokens.device.type != "cpu":
        return
    lowest, highest = (int(x) for x in tokens.aminmax())
    wrong = lowest if lowest < 0 else highest
    if not 0 <= wrong < vocabulary:
        fix = "enlarge the vocabulary in the configuration, or map unknown words to a known token"
        raise invalid(argument, f"tokens from 0 to {vocabulary - 1}", f"token {wrong}", fix)


def require_vectors(argument: str, x: Tensor, width: int, batch: int | None = None) -> None:
    """Raises ValueError unless x has the shape [batch, length, width]."""
    if x.dim() != 3:
        fix = "add the missing dimension with .unsqueeze, or pass tokens through the embedding"
        raise invalid(argument, f"rank 3, [batch, length, {width}]", f"shape {shape(x)}", fix)
    if x.shape[-1] != width:
        fix = "the module and its input must agree on the width"
        raise invalid(argument, f"vectors of width {width}", f"shape {shape(x)}", fix)
    if batch is not None and x.shape[0] != batch:
        fix = "both sides must hold the same sentences"
        raise invalid(argument, f"a batch of {batch}", x.shape[0], fix)


WAYS = "True means 'may attend': see masks.from_ones, from_blocked and from_additive"


def require_boolean(argument: str, mask: Tensor, fix: str = WAYS) -> None:
    if mask.dtype != torch.bool:
        raise invalid(argument, "a boolean tensor", mask.dtype, fix)


def require_look(argument: str, mask: Tensor) -> None:
    """Raises ValueError if a mask is not boolean, or has rank 3: is its first dimension B or H?"""
    require_boolean(argument, mask)
    if mask.dim() == 3 and mask.shape[0] != 1:
        fix = "one for each sentence is [batch, 1, queries, keys], for each head [1, heads, …]"
        raise invalid(argument, "rank 4 or 2", shape(mask), fix)


def require_mask(argument: str, mask: Tensor | None, scores: Sequence[int]) -> None:
    """Raises ValueError unless the mask is None, or boolean and broadcasts to the scores' shape."""
    if mask is None:
        return
    require_boolean(argument, mask)
    trailing = tuple(scores)[len(scores) - mask.dim() :]
    pairs = zip(mask.shape, trailing, strict=False)
    if mask.dim() > len(scores) or not all(m == 1 or m == s for m, s in pairs):
        expected = f"a shape that broadcasts to the scores' {list(scores)}"
        fix = "its last two dimensions are queries and keys; a mask per row is [batch, 1, 1, keys]"
        raise invalid(argument, expected, shape(mask), fix)
    if len(scores) == 4:
        require_look(argument, mask)


def require_attention(
    query: Tensor, key: Tensor, value: Tensor | None = None, dropout: float = 0.0
) -> tuple[int, ...]:
    """Returns the scores' shape [..., T, S]; raises ValueError if query, key and value misfit."""
    for name, x in (("query", query), ("key", key), ("value", key if value is None else value)):
        if x.dim() < 2:
            raise invalid(name, "rank 2 or more, [..., length, width]", shape(x), "add a dimension")
    if query.shape[-1] != key.shape[-1]:
        fix = "their dot product needs one width"
        raise invalid("key", f"the query's width {query.shape[-1]}", key.shape[-1], fix)
    if value is not None and key.shape[-2] != value.shape[-2]:
        fix = "each key has one value"
        raise invalid("value", f"as many values as keys, {key.shape[-2]}", value.shape[-2], fix)
    require_probability("dropout", dropout)
    batch = query.shape[:-2]
    if key.shape[:-2] != batch:  # seldom; broadcasting takes longer than all of the above
        batch = torch.broadcast_shapes(batch, key.shape[:-2])
    return (*batch, query.shape[-2], key.shape[-2])
