"""The data that a training can ask for by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import check_choice, check_whole, invalid
from ..tokens import Subwords, Vocabulary, Words
from .multi30k import multi30k
from .phrasebook import Pair, sentence_pairs


class Data(NamedTuple):
    training: Sequence[tuple[str, str]]
    source: Vocabulary
    target: Vocabulary
    validation: Sequence[tuple[str, str]] = ()


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


SOURCES: Mapping[str, Callable[..., Data]] = {
    "phrasebook": phrasebook_data,
    "multi30k": multi30k_data,
}


def languages(name: str = "", **options: Any) -> tuple[str, str] | None:
    """From which to which a recipe's [data] goes, where one can choose."""
    if not isinstance(name, str) or name not in SOURCES:
        return None
    try:
        asked = inspect.signature(SOURCES[name]).bind(**options)
    except TypeError:  # a recipe of somebody else
        return None
    asked.apply_defaults()
    chosen = asked.arguments
    return (chosen["source"], chosen["target"]) if "source" in chosen else None


def load_data(name: str, **options: Any) -> Data:
    check_choice("data.name", name, tuple(SOURCES))
    known = list(inspect.signature(SOURCES[name]).parameters)
    for option in options:
        check_choice(f"[data] of {name}", option, known)
    return SOURCES[name](**options)
