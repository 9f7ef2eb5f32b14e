"""The data that a training can ask for by name."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import check_choice, check_whole, invalid
from ..tokens import Subwords, Vocabulary, Words
from .corpus import lines
from .multi30k import multi30k
from .phrasebook import Pair, sentence_pairs


class Data(NamedTuple):
    training: Sequence[tuple[str, str]]
    source: Vocabulary
    target: Vocabulary
    validation: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()  # what was left out, for whoever trains to read


def phrasebook_data(count: int = 40_000, seed: int = 0) -> Data:
    """German to English, with a vocabulary made of the training sentences."""
    pairs = [(pair.german, pair.english) for pair in sentence_pairs(count, seed=seed)]
    return Data(pairs, Words.of(german for german, _ in pairs), Words.of(text for _, text in pairs))


def phrasebook_test(count: int) -> list[Pair]:
    """Sentences with combinations that no training sentence has."""
    return sentence_pairs(count, seed=1, held_out=True)


def multi30k_data(source: str = "de", target: str = "en", vocabulary: int = 4000) -> Data:
    """Multi30k's captions, in subwords that both languages share."""
    directed([], source, target)  # before anything is downloaded
    check_whole("vocabulary", vocabulary, 100)
    german, english = (list(side) for side in zip(*multi30k("train"), strict=True))
    shared = Subwords.of([*german, *english], vocabulary)
    training, validation = (directed(multi30k(split), source, target) for split in ("train", "val"))
    return Data(training, shared, shared, validation)


def directed(pairs: Sequence[tuple[str, str]], source: str, target: str) -> list[tuple[str, str]]:
    """(German, English) in the order that is wanted."""
    if [source, target] not in (["de", "en"], ["en", "de"]):
        fix = "choose de and en, or en and de"
        raise invalid("source and target", "two languages", f"{source} and {target}", fix)
    return [(de, en) if source == "de" else (en, de) for de, en in pairs]


HELD_OUT = 2000  # sentence pairs at most


def files_data(
    train: Sequence[str] = (),
    valid: Sequence[str] | None = None,
    vocabulary: int = 8000,
    lowercase: bool = False,
    max_length: int = 256,
) -> Data:
    """Two files of the user's, a sentence a line, in subwords that both languages share. Without
    others for validation, the last hundredth is kept for it.
    """
    check_whole("vocabulary", vocabulary, 100)
    check_whole("max_length", max_length, 2)
    notes: list[str] = []
    training = read_pairs("data.train", train, notes)
    if valid is not None:
        validation = read_pairs("data.valid", valid, notes)
    else:
        held = min(max(1, len(training) // 100), HELD_OUT)
        training, validation = training[:-held], training[-held:]
        notes.append(f"validation: the last {held:,} of them, as no files were given for it")
    text = (sentence for pair in training for sentence in pair)
    words, kept = Subwords.of(text, vocabulary, lowercase=lowercase), []
    for name, pairs in (("training", training), ("validation", validation)):
        kept.append([p for p in pairs if max(len(words.encode(x)) for x in p) < max_length])
        if long := len(pairs) - len(kept[-1]):
            notes.append(f"{name}: left out {long:,} of more than {max_length} tokens")
        if not kept[-1]:
            fix = "give more sentences, or raise data.max_length"
            raise invalid(name, f"a pair of at most {max_length} tokens", "none", fix)
    return Data(kept[0], words, words, kept[1], notes)


def read_pairs(name: str, files: Sequence[str], notes: list[str]) -> list[tuple[str, str]]:
    """Those of two files of which neither side is empty."""
    pairs = list(lines(*two_files(name, files)))
    full = [pair for pair in pairs if pair[0].strip() and pair[1].strip()]
    empty = f", {len(pairs) - len(full):,} left out for an empty side" * (len(full) < len(pairs))
    notes.append(f"{' and '.join(files)}: {len(pairs):,} pairs{empty}")
    if len(full) < 2:
        raise invalid(name, "at least two pairs of sentences", len(full), "check the files")
    return full


def two_files(name: str, files: Sequence[str]) -> Sequence[str]:
    many: list[Any] = list(files) if isinstance(files, list | tuple) else [files]
    if [isinstance(file, str) for file in many] != [True] * 2:
        fix = "give the source's and the target's"
        raise invalid(name, "two files of text", ", ".join(map(str, many)) or "none", fix)
    return many


SOURCES: Mapping[str, Callable[..., Data]] = {
    "phrasebook": phrasebook_data,
    "multi30k": multi30k_data,
    "files": files_data,
}


def languages(
    name: object = None, source: str = "de", target: str = "en", **_: Any
) -> tuple[str, str] | None:
    """From which to which a recipe's [data] goes, where one can choose."""
    return (source, target) if name == "multi30k" else None


def load_data(name: str, **options: Any) -> Data:
    check_choice("data.name", name, tuple(SOURCES))
    known = list(inspect.signature(SOURCES[name]).parameters)
    for option in options:
        check_choice(f"[data] of {name}", option, known)
    return SOURCES[name](**options)
