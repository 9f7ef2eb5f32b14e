"""All attention maps of sentence pairs, without padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .loss import teacher_forcing
from .search import evaluating
from .translator import Translator

BATCH = 128  # pairs whose maps are in memory at once


class SentenceMaps(NamedTuple):
    """Of one pair, each [layers, H, queries, keys].

    The encoder reads the source and its end: S words. The decoder reads the beginning and the
    target; the row of a word in `decoder` and `cross` is that of the query which has to say the
    next one, the last row that which says the end: T rows.
    """

    encoder: Tensor  # [layers, H, S, S]
    decoder: Tensor  # [layers, H, T, T]
    cross: Tensor  # [layers, H, T, S]


def maps_of(translator: Translator, pairs: Sequence[tuple[str, str]]) -> Iterator[SentenceMaps]:
    """For each (source, target), what the model looks at when it is given both."""
    corpus = translator.corpus(pairs)
    for start in range(0, len(pairs), BATCH):
        numbers = range(start, min(start + BATCH, len(pairs)))
        source, target = corpus.batch(numbers)
        inputs, _ = teacher_forcing(target.to(translator.device))
        with evaluating(translator.model):
            _, maps = translator.model(source.to(translator.device), inputs, need_weights=True)
        for row, number in enumerate(numbers):
            s, t = len(corpus.source[number]), len(corpus.target[number]) - 1
            sizes = ((s, s), (t, t), (t, s))
            yield SentenceMaps(
                *(
                    torch.stack([layer[row, :, :queries, :keys] for layer in layers])
                    for layers, (queries, keys) in zip(maps, sizes, strict=True)
                )
            )
