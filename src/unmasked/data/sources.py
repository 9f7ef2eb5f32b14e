"""The data that a training can ask for by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..validation import check_choice
from .phrasebook import Pair, pairs
from .words import Words


class Data(NamedTuple):
    training: Sequence[tuple[str, str]]
    source: Words
    target: Words


def phrasebook(count: int = 40_000, seed: int = 0) -> Data:
    """German to English, with a vocabulary made of the training sentences."""
    made = [(pair.german, pair.english) for pair in pairs(count, seed=seed)]
    return Data(made, Words.of(german for german, _ in made), Words.of(text for _, text in made))


def phrasebook_test(count: int) -> list[Pair]:
    """Sentences with combinations that no training sentence has."""
    return pairs(count, seed=1, held_out=True)


SOURCES: Mapping[str, Callable[..., Data]] = {"phrasebook": phrasebook}


def load_data(name: str, **options: Any) -> Data:
    check_choice("data.name", name, tuple(SOURCES))
    known = list(inspect.signature(SOURCES[name]).parameters)
    for option in options:
        check_choice(f"[data] of {name}", option, known)
    return SOURCES[name](**options)
