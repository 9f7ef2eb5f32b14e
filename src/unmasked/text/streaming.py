"""Sentence pairs that no memory holds: read line by line, and shuffled a buffer at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import check_whole, invalid
from ..tokens import Vocabulary, pad, same_words
from .corpus import Corpus, Cursor, Tokens, batches_by_tokens, framed, turned

Pairs = Iterable[tuple[str, str]]


def lines(source: Path | str, target: Path | str) -> Iterator[tuple[str, str]]:
    """The lines of two files, side by side."""
    options: Any = {"encoding": "utf-8", "newline": "\n"}  # a lone \r ends no line
    with Path(source).open(**options) as one, Path(target).open(**options) as other:
        for number, (a, b) in enumerate(zip_longest(one, other), 1):
            if a is None or b is None:
                ended = source if a is None else target
                fix = "each line needs its translation in the other file"
                raise invalid(str(ended), f"a line {number}", "its end", fix)
            yield a.rstrip("\r\n"), b.rstrip("\r\n")


class StreamedCorpus:
    """What a training asks of a corpus, with one buffer of pairs in memory and no more.

    `read()` begins a pass over the pairs, always in the same order. Where a `Corpus` speaks of the
    numbers of its sentences, this one speaks of the sentences themselves, as tokens. Every process
    reads all lines and trains on its share of each batch. Whoever resumes reads what was done of
    the pass once more, without training on it.
    """

    def __init__(
        self,
        read: Callable[[], Pairs],
        source: Vocabulary,
        target: Vocabulary,
        *,
        buffer: int = 50_000,
    ) -> None:
        check_whole("buffer", buffer, 1)
        self.read, self.source, self.target, self.buffer = read, source, target, buffer
        self.joint = same_words(source, target)

    def buffers(self) -> Iterator[list[Tokens]]:
        """One pass, as tokens."""
        pairs = iter(self.read())
        while some := list(islice(pairs, self.buffer)):
            yield [framed(self.source, self.target, pair) for pair in some]

    def epoch(self, epoch: int, max_tokens: int, seed: int) -> Iterator[list[Tokens]]:
        """The batches of one pass: shuffled, and of similar lengths, within each buffer."""
        generator = torch.Generator().manual_seed(seed + 1_000_003 * epoch)
        for held in self.buffers():
            lengths = [max(len(source), len(target)) for source, target in held]
            for batch in batches_by_tokens(lengths, max_tokens, generator=generator):
                yield [held[number] for number in batch]

    def stream(
        self,
        max_tokens: int,
        seed: int,
        start: Cursor = Cursor(),  # noqa: B008
    ) -> Iterator[tuple[list[Tokens], Cursor]]:
        """Batch after batch without end, each with the place that follows it."""
        epoch, done = start
        while True:
            number = 0
            for number, batch in enumerate(self.epoch(epoch, max_tokens, seed), 1):
                if number > done:
                    yield batch, Cursor(epoch, number)
            if number == 0:
                fix = "it is called once a pass, and begins anew each time"
                raise invalid("read", "at least one pair of sentences", "none", fix)
            epoch, done = epoch + 1, 0

    def batch(self, pairs: Sequence[Tokens], back: bool = False) -> tuple[Tensor, Tensor]:
        """These sentences, padded: [B, S], [B, T + 1]; `back` is from target to source."""
        sides = pad([source for source, _ in pairs]), pad([target for _, target in pairs])
        return turned(*sides) if back else sides

    def labels(self, pairs: Sequence[Tokens], back: bool = False) -> int:
        """How many words the decoder is asked for in these sentences."""
        return sum(len(source) if back else len(target) - 1 for source, target in pairs)

    def fingerprint(self) -> str:
        """The same for the same first buffer, read in buffers of that size."""
        first = next(self.buffers(), [])
        return hashlib.sha256(repr((self.buffer, first)).encode()).hexdigest()[:16]


AnyCorpus = Corpus | StreamedCorpus
