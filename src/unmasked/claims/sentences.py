"""Phrasebook sentences of one kind of length, for training, for choosing, and for testing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from ..data.corpus import Corpus
from ..data.phrasebook import Pair, pairs
from ..data.words import Words
from ..validation import check_choice

SHORT, LONG, ANY = "at most 5 words", "at least 9 words", "any length"
FITS: Mapping[str, Callable[[int], bool]] = {
    SHORT: lambda words: words <= 5,
    LONG: lambda words: words >= 9,
    ANY: lambda _: True,
}
TESTED = 500
POOL = 2000  # at least so many, so that few words of the tested sentences are missing


class Sentences:
    """All different; the vocabulary is that of the pool that trainings draw from."""

    def __init__(self, kind: str, most: int) -> None:
        check_choice("kind", kind, tuple(FITS))
        fits, most = FITS[kind], max(most, POOL)
        draws = (1 if kind == ANY else 10) * (most + 3 * TESTED)  # one in eight is short
        found = [pair for pair in pairs(draws) if fits(len(pair.german.split()))]
        pool, rest = found[:most], found[most:]
        self.source = Words.of(pair.german for pair in pool)
        self.target = Words.of(pair.english for pair in pool)
        self.pool = self.encoded(pool)
        known = [p for p in rest if self.source.knows(p.german) and self.target.knows(p.english)]
        self.test = self.encoded(known[:TESTED])
        self.validation = self.encoded(known[TESTED : 2 * TESTED])

    def encoded(self, chosen: Sequence[Pair]) -> Corpus:
        return Corpus.of(self.source, self.target, (pair[:2] for pair in chosen))

    def training(self, size: int, seed: int) -> Corpus:
        """So many pairs of the pool, others for each seed."""
        order = torch.randperm(len(self.pool), generator=torch.Generator().manual_seed(seed))
        sides = self.pool.source, self.pool.target
        source, target = ([side[n] for n in order[:size].tolist()] for side in sides)
        return Corpus(source, target)
