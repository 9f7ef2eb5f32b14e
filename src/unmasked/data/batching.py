"""Sentences of different lengths → batches with little padding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..special import PADDING
from ..validation import check_at_least, invalid


def pad(sentences: Sequence[Sequence[int]]) -> Tensor:
    """Token lists → one tensor, the short ones filled up with padding: [B, longest]."""
    if not sentences or not all(sentences):
        got = "none" if not sentences else "an empty one"
        raise invalid("sentences", "sentences of at least one token", got, "leave empty ones out")
    tokens = torch.full((len(sentences), max(map(len, sentences))), PADDING)
    for row, sentence in zip(tokens, sentences, strict=True):
        row[: len(sentence)] = torch.tensor(sentence)
    return tokens


def batches_by_tokens(
    lengths: Sequence[int], max_tokens: int, *, generator: torch.Generator | None = None
) -> list[list[int]]:
    """Sentence numbers in batches of similar length, padded to at most `max_tokens` each.

    Sentences of one length and the order of the batches are shuffled. For pairs give the longer
    of the two lengths. Each sentence is in exactly one batch.
    """
    check_at_least("max_tokens", max_tokens, 1)
    if not lengths:
        raise invalid("lengths", "at least one sentence", "none", "check the corpus that was read")
    longest = max(lengths)
    if longest > max_tokens:
        fix = "raise max_tokens, or leave out sentences longer than it"
        raise invalid("max_tokens", f"room for the longest sentence, {longest}", max_tokens, fix)
    shuffled = torch.randperm(len(lengths), generator=generator).tolist()
    batches: list[list[int]] = [[]]
    for number in sorted(shuffled, key=lengths.__getitem__):  # stable: equal lengths stay shuffled
        if (len(batches[-1]) + 1) * lengths[number] > max_tokens:
            batches.append([])
        batches[-1].append(number)
    order = torch.randperm(len(batches), generator=generator).tolist()
    return [batches[number] for number in order]
