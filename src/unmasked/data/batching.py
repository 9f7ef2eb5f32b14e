"""Sentences of different lengths → batches with little padding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..special import EOS, PADDING
from ..validation import check_at_least, invalid


def pad(sentences: Sequence[Sequence[int]]) -> Tensor:
    """Token lists → one tensor, the short ones filled up with padding: [B, longest]."""
    rows = [torch.as_tensor(sentence) for sentence in sentences]
    if not rows or any(len(row) == 0 for row in rows):
        got = "an empty one" if rows else "none"
        raise invalid("sentences", "sentences of at least one token", got, "leave empty ones out")
    if any(row.dtype.is_floating_point for row in rows):
        fix = "token numbers index a table"
        raise invalid("sentences", "whole numbers", "fractions", fix)
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING).long()


def until_end(tokens: Sequence[int]) -> list[int]:
    """What comes before the first EOS."""
    row = list(tokens)
    return row[: row.index(EOS)] if EOS in row else row


def batches_by_tokens(
    lengths: Sequence[int], max_tokens: int, *, generator: torch.Generator | None = None
) -> list[list[int]]:
    """Sentence numbers in batches of similar length, padded to at most `max_tokens` each.

    Sentences of one length and the order of the batches are shuffled. For pairs give the longer
    of the two lengths. Each sentence is in exactly one batch.
    """
    check_at_least("max_tokens", max_tokens, 1)
    if len(lengths) == 0:
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
