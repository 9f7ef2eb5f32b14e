"""Sentence pairs as tokens, held or streamed, in batches whose order follows from a seed."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import invalid, require_whole, shown
from ..tokens import BOS, EOS, Vocabulary, pad, same_words

LINE = 1 << 24  # bytes of a line at most


def batches_by_tokens(
    lengths: Sequence[int], max_tokens: int, *, generator: torch.Generator | None = None
) -> list[list[int]]:
    """Sentence numbers in batches of similar length, padded to at most `max_tokens` each.

    Sentences of one length and the order of the batches are shuffled. For pairs give the longer
    of the two lengths. Each sentence is in exactly one batch.
    """
    require_whole("max_tokens", max_tokens, 1)
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


Pair = tuple[Sequence[int], Sequence[int]]  # a source with its EOS; a target between BOS and EOS


def framed(source: Vocabulary, target: Vocabulary, pair: tuple[str, str]) -> Pair:
    """A pair of sentences as encoder and decoder read it."""
    if not isinstance(pair, tuple | list) or [isinstance(text, str) for text in pair] != [True] * 2:
        raise invalid("pair", "a source and a target, both texts", shown(pair), "give both")
    return [*source.encode(pair[0]), EOS], [BOS, *target.encode(pair[1]), EOS]


def short(
    pairs: Iterable[tuple[str, str]], source: Vocabulary, target: Vocabulary, longest: int | None
) -> Iterator[Pair]:
    """Yields framed pairs that the model reads in at most `longest` tokens a side."""
    for pair in pairs:
        found = framed(source, target, pair)
        if longest is None or max(len(found[0]), len(found[1]) - 1) <= longest:
            yield found


def turned(source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The same pairs from target to source: [B, S], [B, T + 1] → [B, T], [B, S + 1]."""
    return target[:, 1:], F.pad(source, (1, 0), value=BOS)


class Cursor(NamedTuple):
    """Where in the data a training stands: so many batches of this epoch are done."""

    epoch: int = 0
    done: int = 0


class Corpus:
    """Pairs of token lists: sources end with EOS, targets stand between BOS and EOS.

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
        self.pairs: list[Pair] = list(zip(source, target, strict=True))
        self.joint = joint

    @classmethod
    def of(
        cls,
        source: Vocabulary,
        target: Vocabulary,
        pairs: Iterable[tuple[str, str]],
        *,
        longest: int | None = None,
    ) -> Corpus:
        """Pairs of sentences, as tokens; without those that have more than `longest`."""
        both = list(short(pairs, source, target, longest))
        sides = [tokens for tokens, _ in both], [tokens for _, tokens in both]
        return cls(*sides, joint=same_words(source, target))

    def __len__(self) -> int:
        return len(self.pairs)

    def buffers(self) -> Iterator[list[Pair]]:
        """One pass over the pairs, as many at a time as are shuffled together: here all."""
        yield self.pairs

    def epoch(self, epoch: int, max_tokens: int, seed: int) -> Iterator[list[Pair]]:
        """The batches of one pass: shuffled, and of similar lengths, within each buffer."""
        generator = torch.Generator().manual_seed(seed + 1_000_003 * epoch)
        for held in self.buffers():
            lengths = [max(len(source), len(target)) for source, target in held]
            for batch in batches_by_tokens(lengths, max_tokens, generator=generator):
                yield [held[number] for number in batch]

    def stream(
        self, max_tokens: int, seed: int, start: tuple[int, int] = (0, 0)
    ) -> Iterator[tuple[list[Pair], Cursor]]:
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

    def batch(
        self, pairs: Sequence[Pair] | None = None, back: bool = False
    ) -> tuple[Tensor, Tensor]:
        """These pairs, or all, padded: [B, S], [B, T + 1]; `back` is from target to source."""
        pairs = self.pairs if pairs is None else pairs
        sides = pad([source for source, _ in pairs]), pad([target for _, target in pairs])
        return turned(*sides) if back else sides

    def labels(self, pairs: Sequence[Pair] | None = None, back: bool = False) -> int:
        """How many words the decoder is asked for in these pairs, or in all."""
        pairs = self.pairs if pairs is None else pairs
        return sum(len(source) if back else len(target) - 1 for source, target in pairs)

    def fingerprint(self) -> str:
        """The same for the same sentences in the same order."""
        digest = hashlib.sha256()
        for side in zip(*self.pairs, strict=True):
            for sentence in side:
                digest.update(repr(list(sentence)).encode())
        return digest.hexdigest()[:16]


class StreamedCorpus(Corpus):
    """Pairs that no memory holds: one buffer of them is read and shuffled at a time, those of more
    than `longest` tokens left out.

    `read()` begins a pass over the pairs, always in the same order. Every process reads all lines
    and trains on its share of each batch. Whoever resumes reads what was done of the pass once
    more, without training on it.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[tuple[str, str]]],
        source: Vocabulary,
        target: Vocabulary,
        *,
        buffer: int = 50_000,
        longest: int | None = None,
    ) -> None:
        require_whole("buffer", buffer, 1)
        self.read, self.buffer = read, buffer
        self.source, self.target, self.longest = source, target, longest
        self.pairs, self.joint = [], same_words(source, target)

    def __len__(self) -> int:
        raise TypeError("nobody has counted the pairs of a stream")

    def __bool__(self) -> bool:
        return True

    def buffers(self) -> Iterator[list[Pair]]:
        pairs = short(self.read(), self.source, self.target, self.longest)
        while some := list(islice(pairs, self.buffer)):
            yield some

    def fingerprint(self) -> str:
        """The same for the same first buffer, read in buffers of that size."""
        first = next(self.buffers(), [])
        return hashlib.sha256(repr((self.buffer, first)).encode()).hexdigest()[:16]


def lines(source: Path | str, target: Path | str) -> Iterator[tuple[str, str]]:
    """The lines of two files, side by side."""
    for number, (a, b) in enumerate(zip_longest(lines_of(source), lines_of(target)), 1):
        if a is None or b is None:
            ended = source if a is None else target
            fix = "each line needs its translation in the other file"
            raise invalid(str(ended), f"a line {number}", "its end", fix)
        yield a, b


def lines_of(path: Path | str) -> Iterator[str]:
    """The lines of a text in UTF-8; of a name in .gz, unpacked. A lone \\r ends no line."""
    try:
        opened: Any = gzip.open if str(path).endswith(".gz") else open
        with opened(path, "rb") as file:
            yield from decoded(str(path), file)
    except (OSError, EOFError, zlib.error) as error:
        got = getattr(error, "strerror", None) or str(error)
        raise invalid(str(path), "a file that can be read", got, "check the path") from None


def decoded(name: str, file: BinaryIO) -> Iterator[str]:
    """The lines of an open file, as `lines_of`."""
    for number, line in enumerate(iter(lambda: file.readline(LINE), b""), 1):
        if len(line) == LINE:
            fix = "give text, a sentence a line"
            raise invalid(f"{name}, line {number}", f"less than {LINE:,} bytes", "more", fix)
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            got = f"the byte 0x{error.object[error.start]:02x} at its place {error.start + 1}"
            fix = "save it as UTF-8; of Latin-1, iconv -f latin1 -t utf-8 makes it"
            raise invalid(f"{name}, line {number}", "text in UTF-8", got, fix) from None
