"""Chapter 9's exercises."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .compare import same_number

Words = tuple[str, ...]
Chances = Callable[[Words], dict[str, float]]
END, LIMIT = ".", 4


def score(answer: float) -> str | None:
    """The sum of the logarithms over the length penalty."""
    return same_number(answer, -2.4 / 2**0.6, 0.01)


def language(seed: int) -> Chances:
    """A language of two words and an end, in which every beginning has chances of its own."""

    def chances(words: Words) -> dict[str, float]:
        numbers = random.Random(f"{seed} {tuple(words)}")
        weights = {word: numbers.random() for word in ("a", "b", END)}
        return {word: weight / sum(weights.values()) for word, weight in weights.items()}

    return chances


def best_of(chances: Chances, width: int) -> Words:
    beam: dict[Words, float] = {(): 1.0}
    for _ in range(LIMIT):
        longer: dict[Words, float] = {}
        for words, p in beam.items():
            if END in words:
                longer[words] = p
            else:
                longer |= {(*words, word): p * q for word, q in chances(words).items()}
        beam = dict(sorted(longer.items(), key=lambda item: -item[1])[:width])
    return max(beam, key=lambda words: beam[words])


def greedy(answer: Callable[[Chances, str, int], Any]) -> str | None:
    """The likeliest word at each step."""
    for seed in range(20):
        chances = language(seed)
        if wrong := same_words(answer(chances, END, LIMIT), best_of(chances, 1)):
            return wrong
    return None


def beam(answer: Callable[[Chances, str, int, int], Any]) -> str | None:
    """The best of what a beam keeps."""
    for seed in range(40):
        chances = language(seed)
        for width in (1, 2, 3):
            if wrong := same_words(answer(chances, END, LIMIT, width), best_of(chances, width)):
                return f"{wrong} (width {width})"
    return None


def same_words(got: object, expected: Words) -> str | None:
    if not isinstance(got, tuple):
        return f"not yet: a tuple of words is asked for, and this is a {type(got).__name__}."
    if got != expected:
        return f"not yet: it finds {' '.join(got)}, where {' '.join(expected)} is expected."
    return None


CHECKS = (score, greedy, beam)
