"""Chapter 1's exercises."""

from collections.abc import Callable

import torch
from torch import Tensor

from unmasked.masks import causal_mask, padding_mask
from unmasked.tokens import EOS, PADDING
from unmasked_book.exercises.compare import function, number, same_form

TARGET = torch.tensor([[1, 8, 9, 10, 11], [1, 8, 12, 0, 0]])  # lengths 5 and 3, as in the chapter


PACKED = (  # sentences of different lengths, one of a single word, and a row without padding
    torch.tensor([[3, 4, 5, 2, 6, 7, 2, 0, 0], [8, 2, 3, 9, 2, 4, 5, 6, 2]]),
    torch.tensor([[5, 6, 2]]),
)


def packed(answer: Callable[[Tensor], Tensor]) -> str | None:
    """Several sentences in a row, each causal and by itself: [B, T] → [B, 1, T, T]."""
    for tokens in PACKED:
        ends = (tokens == EOS).long()
        expected = packed_mask(tokens, ends.cumsum(-1) - ends)
        got = answer(tokens)
        if wrong := same_form(got, expected, f"packed_mask of tokens {list(tokens.shape)}"):
            return wrong
        shifted = packed_mask(tokens, ends.cumsum(-1))  # each end with what comes after it
        for row, *masks in zip(tokens, got, expected, shifted, strict=True):
            if wrong := seen_wrongly(row, *(mask[0] for mask in masks)):
                return f"not yet: in the row {row.tolist()}, {wrong}."
    return None


def packed_mask(tokens: Tensor, sentence: Tensor) -> Tensor:
    """Causal, and only where two positions have the same number of their sentence."""
    same = sentence[:, None, :, None] == sentence[:, None, None, :]
    return same & causal_mask(tokens.shape[1]) & padding_mask(tokens)


def seen_wrongly(row: Tensor, got: Tensor, expected: Tensor, shifted: Tensor) -> str | None:
    """The first mistake in a row's mask [T, T]. A padded query may see anything but padding."""
    padding = row == PADDING
    query = ~padding[:, None]
    later = ~causal_mask(len(row))
    if (pairs := got & query & later & ~padding).any():
        return f"{sees(pairs)}, which is later"
    if torch.equal(got & query, shifted & query):
        end = row.tolist().index(EOS)
        return f"the <eos> at {end} goes with what comes after it, not with the sentence it ends"
    if (pairs := got & query & ~expected & ~padding).any():
        return f"{sees(pairs)}, which belongs to another sentence"
    if (pairs := got & padding).any():
        return f"{sees(pairs)}, which is padding"
    if (pairs := expected & ~got & query).any():
        return f"{sees(pairs, 'does not see')}, which is not later, and of the same sentence"
    return None


def sees(pairs: Tensor, verb: str = "sees") -> str:
    """The first of some pairs of a query and a key, in words."""
    query, key = pairs.nonzero()[0].tolist()
    return f"position {query} {verb} position {key}"


def window(n: int, width: int) -> Tensor:
    """A causal mask [n, n] in which each position sees itself and the width - 1 before it."""
    row, column = torch.arange(n)[:, None], torch.arange(n)
    return (column <= row) & (column > row - width)


VISIBLE = padding_mask(TARGET) & causal_mask(5)  # pairs in the decoder of lengths 5 and 3
CHECKS = (
    number(int(VISIBLE.sum())),
    function("window", window, (1, 1), (5, 1), (6, 3), (4, 9)),
)
PLUS = {"+": packed}
