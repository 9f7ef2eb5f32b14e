"""Puts pairs of sentences into batches of token IDs, in an order that follows from a seed."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import invalid
from ..tokens import BOS, EOS, Vocabulary, pad, same_words

LINE = 1 << 24  # bytes of a line at most


def batches_by_tokens(
    lengths: Sequence[int], max_tokens: int, *, generator: torch.Generator | None = None
) -> list[list[int]]:
    """Returns batches of sentences' indices: each in one, of at most `max_tokens` with padding.

    A batch has sentences of similar length; those of one length, and the batches, are shuffled.
    For pairs give the longer of the two lengths.
    """
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


def short(
    pairs: Iterable[tuple[str, str]], source: Vocabulary, target: Vocabulary, longest: int | None
) -> Iterator[Pair]:
    """Yields pairs of texts as token IDs, without those of more than `longest` tokens on a side."""
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2:
            raise invalid("pair", "a source and a target", repr(pair), "give both")
        one, other = pair
        read, written = [*source.encode(one), EOS], [BOS, *target.encode(other)]
        if longest is None or max(len(read), len(written)) <= longest:
            yield read, [*written, EOS]


class Cursor(NamedTuple):
    """A Cursor is a position in a corpus: `done` batches of this epoch are trained on."""

    epoch: int = 0
    done: int = 0


class Corpus:
    """A Corpus holds pairs of token IDs: sources end with EOS, targets stand between BOS and EOS.

    `joint` says that each ID means the same on both sides, so that source and target can swap.
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
        """Returns a Corpus of the pairs' token IDs, without pairs of more than `longest` tokens."""
        both = list(short(pairs, source, target, longest))
        sides = [read for read, _ in both], [written for _, written in both]
        return cls(*sides, joint=same_words(source, target))

    def __len__(self) -> int:
        return len(self.pairs)

    def buffers(self) -> Iterator[list[Pair]]:
        """Yields lists of pairs, each to be shuffled as a whole: here one list with all pairs."""
        yield self.pairs

    def epoch(self, epoch: int, max_tokens: int, seed: int) -> Iterator[list[Pair]]:
        """Yields a pass's batches of pairs, each of similar lengths, in an order from the seed."""
        generator = torch.Generator().manual_seed(seed + 1_000_003 * epoch)
        for held in self.buffers():
            lengths = [max(len(source), len(target)) for source, target in held]
            for batch in batches_by_tokens(lengths, max_tokens, generator=generator):
                yield [held[number] for number in batch]

    def stream(
        self, max_tokens: int, seed: int, start: tuple[int, int] = (0, 0)
    ) -> Iterator[tuple[list[Pair], Cursor]]:
        """Yields batches, epoch after epoch, from the cursor `start`, each with the next Cursor."""
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
        """Returns pairs (or all) as padded source [B, S], target [B, T + 1]; if `back`, swapped."""
        pairs = self.pairs if pairs is None else pairs
        source, target = pad([source for source, _ in pairs]), pad([target for _, target in pairs])
        return (target[:, 1:], F.pad(source, (1, 0), value=BOS)) if back else (source, target)

    def labels(self, pairs: Sequence[Pair] | None = None, back: bool = False) -> int:
        """Counts the tokens that the decoder predicts in pairs, or all; if `back`, in sources."""
        pairs = self.pairs if pairs is None else pairs
        return sum(len(source) if back else len(target) - 1 for source, target in pairs)

    def fingerprint(self) -> str:
        """Returns a digest of all token IDs, the same for the same sentences in the same order."""
        digest = hashlib.sha256()
        for sentence in chain(*zip(*self.pairs, strict=True)):
            digest.update(repr(list(sentence)).encode())
        return digest.hexdigest()[:16]


class StreamedCorpus(Corpus):
    """A StreamedCorpus reads and shuffles one buffer of pairs at a time, if memory cannot hold all.

    `read()` begins a pass over the pairs, always in the same order. Every process reads all pairs
    and trains on its share of each batch. A run that is resumed reads the pass from its beginning.
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
        self.read, self.buffer = read, buffer
        self.source, self.target, self.longest = source, target, longest
        self.pairs, self.joint = [], same_words(source, target)

    def __len__(self) -> int:
        raise TypeError("nobody has counted the pairs of a stream")

    def buffers(self) -> Iterator[list[Pair]]:
        pairs = short(self.read(), self.source, self.target, self.longest)
        while some := list(islice(pairs, self.buffer)):
            yield some

    def fingerprint(self) -> str:
        """Returns a digest of the first buffer's size and token IDs; later pairs do not count."""
        first = next(self.buffers(), [])
        return hashlib.sha256(repr((self.buffer, first)).encode()).hexdigest()[:16]


def lines(source: Path | str, target: Path | str) -> Iterator[tuple[str, str]]:
    """Yields pairs of lines, one of each file; raises ValueError where one file ends first."""
    for number, (a, b) in enumerate(zip_longest(lines_of(source), lines_of(target)), 1):
        if a is None or b is None:
            ended = source if a is None else target
            fix = "each line needs its translation in the other file"
            raise invalid(str(ended), f"a line {number}", "its end", fix)
        yield a, b


def lines_of(path: Path | str) -> Iterator[str]:
    """Yields a UTF-8 file's lines without their ends, unpacked if .gz; a lone \\r ends no line."""
    try:
        opened: Any = gzip.open if str(path).endswith(".gz") else open
        with opened(path, "rb") as file:
            yield from decoded(str(path), file)
    except (OSError, EOFError, zlib.error) as error:
        got = getattr(error, "strerror", None) or str(error)
        raise invalid(str(path), "a file that can be read", got, "check the path") from None


def decoded(name: str, file: BinaryIO) -> Iterator[str]:
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
