"""Judges answers to the exercises of chapter 1."""

from collections.abc import Callable

import torch
from torch import Tensor

from unmasked.masks import causal_mask, padding_mask
from unmasked_book.exercises.compare import function, number, same_form

PACKED = (  # sentences of different lengths, one of a single word, and a row without padding
    torch.tensor([[3, 4, 5, 2, 6, 7, 2, 0, 0], [8, 2, 3, 9, 2, 4, 5, 6, 2]]),
    torch.tensor([[5, 6, 2]]),
)


def packed(answer: Callable[[Tensor], Tensor]) -> str | None:
    """Judges a causal mask [B, 1, T, T] of rows with several sentences, none of which sees another.

    A padded query may see anything but padding.
    """
    for tokens in PACKED:
        real, past = padding_mask(tokens), causal_mask(tokens.shape[1])
        ended = (tokens == 2).cumsum(-1) - (tokens == 2).long()  # sentences before this token
        same = (ended[:, :, None] == ended[:, None])[:, None]
        got, query = answer(tokens), real.mT
        expected = same & past & real
        if wrong := same_form(got, expected, f"packed_mask of tokens {list(tokens.shape)}"):
            return wrong
        for pairs, rule in (
            (got & query & ~past & real, "sees position {}, which is later"),
            (got & query & ~same & real, "sees position {}, which belongs to another sentence"),
            (got & ~real, "sees position {}, which is padding"),
            (expected & ~got & query, "does not see position {} of its own sentence"),
        ):
            for row, _, seeing, seen in pairs.nonzero()[:1].tolist():
                where = f"in the row {tokens[row].tolist()}, position {seeing}"
                return f"not yet: {where} {rule.format(seen)}."
    return None


WINDOWS = ((1, 1), (5, 1), (6, 3), (4, 9))
CHECKS = {
    "1": number(1 + 2 + 3 + 4 + 5 + 1 + 2 + 3 + 4 + 4),  # in the decoder, of lengths 5 and 4
    "2": function("window", lambda n, width: causal_mask(n).triu(1 - width), *WINDOWS, dots=True),
    "+": packed,
}
