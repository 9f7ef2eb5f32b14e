"""Loads the data that a training names: the phrasebook, Multi30k, or files of the user's."""

from __future__ import annotations

import inspect
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import invalid, require_choice, require_seed, require_whole
from ..tokens import Subwords, Vocabulary, Words
from .aligned import Pair
from .corpus import Corpus, StreamedCorpus, lines, short
from .multi30k import multi30k
from .phrasebook import sentence_pairs

IN_MEMORY = 100_000  # pairs; more of them are read as the training goes
LEAST, USUAL, MOST = 20, 200, 2000  # pairs that are held out


class Data(NamedTuple):
    training: Sequence[tuple[str, str]] | Texts
    source: Vocabulary
    target: Vocabulary
    validation: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()  # sentences for the user, about what was read and left out
    longest: int | None = None  # tokens of a sentence at most

    def corpus(self) -> Corpus:
        """Returns the training pairs as token IDs, streamed if there are too many for memory."""
        words, texts = (self.source, self.target), self.training
        if isinstance(texts, Texts) and len(texts) > IN_MEMORY:
            return StreamedCorpus(lambda: texts, *words, buffer=IN_MEMORY, longest=self.longest)
        return Corpus.of(*words, texts, longest=self.longest)


def phrasebook_data(count: int = 40_000, seed: int = 0) -> Data:
    """Returns `count` phrasebook pairs, German to English, and the vocabularies of their words."""
    require_seed(seed)
    pairs = [(pair.german, pair.english) for pair in sentence_pairs(count, seed=seed)]
    return Data(pairs, Words.of(german for german, _ in pairs), Words.of(text for _, text in pairs))


def phrasebook_test(count: int) -> list[Pair]:
    """Returns phrasebook pairs with combinations, as of verb and object, of no training pair."""
    return sentence_pairs(count, seed=1, held_out=True)


def multi30k_data(source: str = "de", target: str = "en", vocabulary: int = 4000) -> Data:
    """Returns Multi30k's captions, for training and validation, and subwords for both languages."""
    directed([], source, target)  # before anything is downloaded
    require_whole("vocabulary", vocabulary, 100)
    german, english = (list(side) for side in zip(*multi30k("train"), strict=True))
    shared = Subwords.of([*german, *english], vocabulary)
    training, validation = (directed(multi30k(split), source, target) for split in ("train", "val"))
    return Data(training, shared, shared, validation)


def directed(pairs: Sequence[tuple[str, str]], source: str, target: str) -> list[tuple[str, str]]:
    """Returns pairs of (German, English) as (source, target), swapped if the source is `en`."""
    if [source, target] not in (["de", "en"], ["en", "de"]):
        fix = "choose de and en, or en and de"
        raise invalid("source and target", "two languages", f"{source} and {target}", fix)
    return [(de, en) if source == "de" else (en, de) for de, en in pairs]


# --- Two files of the user's ------------------------------------------------------------------


class Texts:
    """A Texts yields two files' pairs of lines, read anew each time, no empty or held-out ones."""

    def __init__(self, name: str, files: Sequence[str]) -> None:
        self.files = two_files(name, files)
        for file in self.files:
            if Path(file).exists() and not Path(file).is_file():
                raise invalid(file, "a file, as it is read several times", "none", "make it one")
        self.held: frozenset[int] = frozenset()  # the marks of held-out pairs
        marks, empty = array("Q"), 0
        for pair in lines(*self.files):
            if pair[0].strip() and pair[1].strip():
                marks.append(mark(pair))
            else:
                empty += 1
        self.marks = np.array(marks, np.uint64)
        left = f", {empty:,} left out for an empty side" * bool(empty)
        self.note = f"{' and '.join(self.files)}: {len(marks) + empty:,} pairs{left}"
        if len(marks) < 2:
            raise invalid(name, "at least two pairs of sentences", len(marks), "check the files")

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for pair in lines(*self.files):
            if pair[0].strip() and pair[1].strip() and not (self.held and mark(pair) in self.held):
                yield pair

    def __len__(self) -> int:
        return len(self.marks) - int(np.isin(self.marks, list(self.held)).sum())

    def hold_out(self, seed: int) -> list[tuple[str, str]]:
        """Returns pairs drawn for validation; from now on iteration skips them and their copies."""
        distinct = np.unique(self.marks)
        count = max(min(len(distinct) // 10, USUAL), min(len(distinct) // 100, MOST))
        if count < LEAST:
            fix = "give two more files, for validation, or more pairs"
            expected = f"{10 * LEAST} distinct pairs, of which {LEAST} can be held out"
            raise invalid(" and ".join(self.files), expected, len(distinct), fix)
        drawn = np.random.default_rng(seed).choice(distinct, count, replace=False)
        held = frozenset(drawn.tolist())
        found = {mark(pair): pair for pair in self if mark(pair) in held}
        self.held = held
        return list(found.values())


def mark(pair: tuple[str, str]) -> int:
    """Returns a 64-bit hash of two texts, the same on every machine, to recognize a pair by."""
    text = "\n".join(pair).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


def files_data(
    train: Sequence[str] = (),
    valid: Sequence[str] | None = None,
    vocabulary: int = 8000,
    lowercase: bool = False,
    max_length: int = 256,
    *,
    seed: int = 0,
    words: tuple[Vocabulary, Vocabulary] | None = None,
) -> Data:
    """Returns the data of two files of the user's, with subwords learnt from both, or with `words`.

    Without two validation files in `valid`, some training pairs are held out instead.
    """
    require_whole("vocabulary", vocabulary, 100)
    require_whole("max_length", max_length, 2)
    texts = Texts("train", train)
    notes = [texts.note]
    if valid is not None:
        validation = list(other := Texts("valid", valid))
        notes.append(other.note)
    else:
        validation = texts.hold_out(seed)
        notes.append(f"validation: {len(validation):,} of them, drawn by the seed {seed}")
    if words is None:
        sentences = (sentence for pair in texts for sentence in pair)
        words = (Subwords.of(sentences, vocabulary, lowercase=lowercase),) * 2
        if (many := len(words[0])) > vocabulary:
            notes.append(f"vocabulary: {many:,} pieces, as the texts have so many letters")
    fitting = [pair for pair in validation if any(short([pair], *words, max_length))]
    if long := len(validation) - len(fitting):
        notes.append(f"validation: left out {long:,} of more than {max_length} tokens")
    if not fitting:
        fix = "give more sentences, or raise max_length"
        raise invalid("validation", f"a pair of at most {max_length} tokens", "none", fix)
    return Data(texts, *words, fitting, notes, max_length)


def two_files(name: str, files: Sequence[str]) -> Sequence[str]:
    many: list[Any] = list(files) if isinstance(files, list | tuple) else [files]
    if [isinstance(file, str) for file in many] != [True] * 2:
        got = ", ".join(map(str, many)) or "none"
        raise invalid(name, "two files of text", got, "give the source's and the target's")
    return many


SOURCES: Mapping[str, Callable[..., Data]] = {
    "phrasebook": phrasebook_data,
    "multi30k": multi30k_data,
    "files": files_data,
}


def languages(
    name: object = None, source: str = "de", target: str = "en", **_: Any
) -> tuple[str, str] | None:
    """Returns source and target language of a recipe's [data] if it is multi30k, else None."""
    return (source, target) if name == "multi30k" else None


def load_data(name: str, options: Mapping[str, Any], **more: Any) -> Data:
    """Returns the data that a recipe's [data] describes; `more` are options that it cannot set."""
    require_choice("data.name", name, tuple(SOURCES))
    found = inspect.signature(SOURCES[name]).parameters.values()
    known = [each.name for each in found if each.kind is not each.KEYWORD_ONLY]
    for option in options:
        require_choice(f"[data] of {name}", option, known)
    return SOURCES[name](**options, **more)
