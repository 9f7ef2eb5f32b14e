"""Sentences to translate, cut into subwords that are learnt from the training sentences alone."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch

from unmasked.text.corpus import Corpus
from unmasked.text.multi30k import multi30k
from unmasked.text.phrasebook import sentence_pairs
from unmasked.tokens import Subwords

POOL = 8000  # sentences that trainings draw from
HELD = 2000  # that validation data are drawn from, and as many for tests
MEASURED = 500
SUBWORDS = 500

Pairs = Sequence[tuple[str, str]]


class Texts(NamedTuple):
    """What one training needs; none of its sentences stands in two of the three."""

    training: Corpus
    validation: Corpus
    test: Corpus
    vocabulary: Subwords
    subwords_a_word: float  # in the test's target; the end of a sentence counts as a word


def phrasebook(size: int, seed: int) -> Texts:
    """So many training sentences, and others to choose with and to test with."""
    found = sentences(POOL + 2 * HELD)
    parts = found[:POOL], found[POOL:-HELD], found[-HELD:]
    draws = torch.Generator().manual_seed(seed)
    chosen = [[part[i] for i in torch.randperm(len(part), generator=draws)[:most].tolist()]
              for part, most in zip(parts, (size, MEASURED, MEASURED), strict=True)]  # fmt: skip
    return prepared(*chosen, subwords=SUBWORDS)


@lru_cache(maxsize=4)
def sentences(count: int) -> list[tuple[str, str]]:
    """German and English sentences from the phrasebook, all different."""
    return [pair[:2] for pair in sentence_pairs(count)]


@lru_cache(maxsize=2)
def captions(size: int, seed: int, *, subwords: int = 1000) -> Texts:
    """So many pairs of Multi30k's; of its validation captions every other one is for the test."""
    pairs, held = multi30k("train"), multi30k("val")
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(seed)).tolist()
    return prepared(
        [pairs[i] for i in sorted(order[:size])], held[::2], held[1::2], subwords=subwords
    )


def prepared(training: Pairs, validation: Pairs, test: Pairs, *, subwords: int) -> Texts:
    shared = Subwords.of((text for pair in training for text in pair), subwords)
    learnt, chosen_by, tested = (
        Corpus.of(shared, shared, part) for part in (training, validation, test)
    )
    words = sum(len(english.split()) + 1 for _, english in test)
    return Texts(learnt, chosen_by, tested, shared, tested.labels() / words)
