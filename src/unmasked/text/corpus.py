"""Sentence pairs as tokens, in batches with little padding, whose order is known from a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import check_whole, invalid, shown
from ..tokens import BOS, EOS, Vocabulary, pad, same_words


def batches_by_tokens(
    lengths: Sequence[int], max_tokens: int, *, generator: torch.Generator | None = None
) -> list[list[int]]:
    """Sentence numbers in batches of similar length, padded to at most `max_tokens` each.

    Sentences of one length and the order of the batches are shuffled. For pairs give the longer
    of the two lengths. Each sentence is in exactly one batch.
    """
    check_whole("max_tokens", max_tokens, 1)
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


Tokens = tuple[list[int], list[int]]  # a source with its EOS; a target between BOS and EOS


def framed(source: Vocabulary, target: Vocabulary, pair: tuple[str, str]) -> Tokens:
    """A pair of sentences as encoder and decoder read it."""
    if not isinstance(pair, tuple | list) or [isinstance(text, str) for text in pair] != [True] * 2:
        raise invalid("pair", "a source and a target, both texts", shown(pair), "give both")
    return [*source.encode(pair[0]), EOS], [BOS, *target.encode(pair[1]), EOS]


def turned(source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The same pairs from target to source: [B, S], [B, T + 1] → [B, T], [B, S + 1]."""
    return target[:, 1:], F.pad(source, (1, 0), value=BOS)


class Cursor(NamedTuple):
    """Where in the data a training stands: so many batches of this epoch are done."""

    epoch: int = 0
    done: int = 0


class Corpus:
    """Token lists: sources end with EOS, targets stand between BOS and EOS.

    `joint` says that a token means the same on both sides, so that they can be exchanged.
    """

    def __init__(
        self,
        source: Sequence[Sequence[int]],
        target: Sequence[Sequence[int]],
        *,
        joint: bool = False,
    ) -> None:
        if len(source) != len(target) or not source:
            got = f"{len(source)} and {len(target)}"
            raise invalid("corpus", "as many sources as targets", got, "each pair needs both")
        self.source, self.target, self.joint = source, target, joint
        self.lengths = [max(len(s), len(t)) for s, t in zip(source, target, strict=True)]

    @classmethod
    def of(cls, source: Vocabulary, target: Vocabulary, pairs: Iterable[tuple[str, str]]) -> Corpus:
        """Pairs of sentences, as tokens."""
        both = [framed(source, target, pair) for pair in pairs]
        sides = [tokens for tokens, _ in both], [tokens for _, tokens in both]
        return cls(*sides, joint=same_words(source, target))

    def __len__(self) -> int:
        return len(self.source)

    def batch(self, numbers: Sequence[int], back: bool = False) -> tuple[Tensor, Tensor]:
        """These sentences, padded: [B, S], [B, T + 1]; `back` is from target to source."""
        sides = pad([self.source[n] for n in numbers]), pad([self.target[n] for n in numbers])
        return turned(*sides) if back else sides

    def labels(self, numbers: Sequence[int], back: bool = False) -> int:
        """How many words the decoder is asked for in these sentences."""
        if back:
            return sum(len(self.source[number]) for number in numbers)
        return sum(len(self.target[number]) - 1 for number in numbers)

    def epoch(self, epoch: int, max_tokens: int, seed: int) -> list[list[int]]:
        """The batches of one pass, as sentence numbers."""
        generator = torch.Generator().manual_seed(seed + 1_000_003 * epoch)
        return batches_by_tokens(self.lengths, max_tokens, generator=generator)

    def stream(
        self,
        max_tokens: int,
        seed: int,
        start: Cursor = Cursor(),  # noqa: B008
    ) -> Iterator[tuple[list[int], Cursor]]:
        """Batch after batch without end, each with the place that follows it."""
        epoch, done = start
        while True:
            batches = self.epoch(epoch, max_tokens, seed)
            for number in range(done, len(batches)):
                yield batches[number], Cursor(epoch, number + 1)
            epoch, done = epoch + 1, 0

    def fingerprint(self) -> str:
        """The same for the same sentences in the same order."""
        digest = hashlib.sha256()
        for sentence in (*self.source, *self.target):
            digest.update(repr(list(sentence)).encode())
        return digest.hexdigest()[:16]
