"""Chapter 3's exercises."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from unmasked import plain
from unmasked.attention import attention
from unmasked_book.exercises.compare import same_form, same_number, same_tensor
from unmasked_book.exercises.modules import scattered, takes_weights


def spread(answer: float) -> str | None:
    """The standard deviation of a product of 64 numbers of variance 9 with 64 of variance 1."""
    return same_number(answer, 24.0)


def attend(answer: Callable[[Tensor, Tensor, Tensor], Tensor]) -> str | None:
    """Attention for one head: [Q, d], [S, d], [S, e] → [Q, e]."""
    draws = torch.Generator().manual_seed(0)
    for queries, keys, width, value in ((2, 3, 4, 5), (1, 6, 64, 1)):
        shapes = ((queries, width), (keys, width), (keys, value))
        q, k, v = (torch.randn(shape, generator=draws) for shape in shapes)
        case = f"attend of shapes [{queries}, {width}], [{keys}, {width}], [{keys}, {value}]"
        if wrong := same_tensor(answer(q, k, v), attention(q, k, v), case):
            return wrong
    return None


def merge(answer: Callable[[Tensor], Tensor]) -> str | None:
    """[B, H, Q, K] → [B, Q, H · K], head after head."""
    heads = torch.arange(24.0).view(1, 2, 4, 3)
    expected = torch.cat([heads[:, 0], heads[:, 1]], dim=-1)
    return same_tensor(answer(heads), expected, "merge of shape [1, 2, 4, 3]")


def mistakes(width: int, head: int) -> dict[str, dict[str, Any]]:
    """What is wrong, in words, and as the options of `with_mistake`."""
    return {
        "the scores are not divided by √K": {"divisor": 1.0},
        "the scores are divided by √D; √K is asked for, of one head's width": {
            "divisor": math.sqrt(width)
        },
        "the scores are divided by K and not by √K": {"divisor": head},
        "the softmax is over the queries; each query's weights should add up to one": {"dim": -2},
        "the softmax is over the heads; each query's weights should add up to one": {"dim": 1},
        "the mask is upside down; True means may attend": {"hidden": torch.clone},
        "the mask is ignored": {"hidden": torch.zeros_like},
        "the values are made of x and not of y": {"values_of_x": True},
        "heads are merged without the transpose, so positions mix": {"merged": False},
        "D is split without the transpose, so positions mix": {"split": False},
        "D is split and heads are merged without the transposes, so positions mix": {
            "split": False,
            "merged": False,
        },
    }


def with_mistake(
    model: plain.MultiHeadAttention,
    x: Tensor,
    y: Tensor,
    mask: Tensor,
    *,
    divisor: float | None = None,
    dim: int = -1,
    hidden: Callable[[Tensor], Tensor] = torch.logical_not,
    values_of_x: bool = False,
    split: bool = True,
    merged: bool = True,
) -> Tensor:
    """What plain.py's attention would give with a mistake in it."""

    def heads(z: Tensor) -> Tensor:  # [B, T, D] → [B, H, T, K]
        return model.split(z) if split else z.reshape(len(z), model.n_heads, z.shape[1], -1)

    q, k = heads(model.query(x)), heads(model.key(y))
    v = heads(model.value(x if values_of_x else y))
    scores = q @ k.transpose(-2, -1) / (divisor or math.sqrt(q.shape[-1]))
    found = scores.masked_fill(hidden(mask), -torch.inf).softmax(dim) @ v
    return model.output(found.transpose(1, 2).flatten(2) if merged else found.reshape(x.shape))


def multihead(answer: Callable[[int, int], Any]) -> str | None:
    """A class with the names of plain.py's, and then the outputs of plain.py's."""
    if isinstance(answer, nn.Module):
        return "not yet: the class itself is asked for, without the sizes in brackets."
    for width, heads in ((8, 2), (12, 3)):
        original, mine = plain.MultiHeadAttention(width, heads), answer(width, heads)
        scattered(original)
        if wrong := takes_weights(mine, original, f"MultiHeadAttention({width}, {heads})"):
            return wrong
        if wrong := same_attention(mine, original, width):
            return wrong
    return None


def same_attention(mine: nn.Module, original: plain.MultiHeadAttention, width: int) -> str | None:
    """First one case in which each of the mistakes shows, then the ways in which it is used."""
    x, y = torch.randn(2, 2, 5, width)
    place = torch.arange(5)
    some = (place[:, None] + place + torch.arange(2).view(2, 1, 1, 1)) % 3 != 0  # [2, 1, 5, 5]
    got, case = mine(x, y, some), "the output for keys of which some are hidden"
    if wrong := same_form(got, x, case):
        return wrong
    if wrong := same_tensor(got, original(x, y, some), case):
        return recognised(got, original, x, y, some) or wrong
    long = torch.randn(2, 7, width)
    real = torch.arange(7) < torch.tensor([7, 4]).view(2, 1, 1, 1)  # [2, 1, 1, 7]
    so_far, everything = torch.ones(5, 5).bool().tril(), torch.ones(2, 1, 7, 5).bool()
    for case, inputs in {
        "self-attention with a causal mask": (x, x, so_far),
        "self-attention with padding": (long, long, real),
        "cross-attention of 5 positions to 7 with padding": (x, long, real),
        "cross-attention of 7 positions to 5": (long, x, everything),
    }.items():
        if wrong := same_tensor(mine(*inputs), original(*inputs), case):
            return wrong
    return None


def recognised(
    got: Tensor, original: plain.MultiHeadAttention, x: Tensor, y: Tensor, mask: Tensor
) -> str | None:
    """The mistake that gives the same."""
    width = x.shape[-1]
    for words, mistake in mistakes(width, width // original.n_heads).items():
        made = with_mistake(original, x, y, mask, **mistake)
        if torch.allclose(got.double(), made.double(), atol=1e-5, equal_nan=True):
            return f"not yet: {words}."
    return None


CHECKS = (spread, attend, merge)
PROJECT = multihead
