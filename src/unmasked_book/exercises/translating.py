"""Judges answers to the exercises of chapter 10."""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from unmasked_book.exercises.compare import function

Pieces = list[str]


def merged(pieces: Pieces, pair: tuple[str, str]) -> Pieces:
    """Returns a word's subwords with each neighbouring `pair` joined into one, from the left."""
    done: Pieces = []
    while pieces:
        fits = tuple(pieces[:2]) == pair
        done.append("".join(pair) if fits else pieces[0])
        pieces = pieces[2 if fits else 1 :]
    return done


def learn(answer: Callable[[dict[str, int], int], Any]) -> str | None:
    """Judges a reader's BPE merges: each must be a most frequent pair of neighbours at its time."""
    dice = random.Random(2)
    texts = [{"low": 5, "lower": 2, "newest": 6, "widest": 3}, {"aaaa": 1, "ab": 3}]
    for _ in range(20):
        letters = ("".join(dice.choices("abc", k=dice.randint(1, 6))) for _ in range(8))
        texts.append({word: dice.randint(1, 9) for word in letters})
    for words in texts:
        n = min(6, sum(len(word) > 1 for word in words))
        pieces = {word: list(word) for word in words}
        merges = list(answer(dict(words), n))
        if len(merges) != n:
            return f"not yet: {words} gives {len(merges)} merges, where {n} were asked for."
        for number, pair in enumerate(merges, 1):
            counts = Counter[tuple[str, str]]()
            for word, parts in pieces.items():
                for neighbours in itertools.pairwise(parts):
                    counts[neighbours] += words[word]
            best, most = max(counts.items(), key=lambda each: each[1], default=(("", ""), 0))
            if counts[tuple(pair)] < most:
                return (
                    f"not yet: merge {number} of {words} is {tuple(pair)}, which occurs "
                    f"{counts[tuple(pair)]} times; {best} occurs {most} times."
                )
            pieces = {word: merged(parts, tuple(pair)) for word, parts in pieces.items()}
    return None


ROWS = ([*pieces] for n in (3, 4, 1, 5) for pieces in itertools.product(("a", "b", "ab"), repeat=n))
PAIRS = (("a", "a"), ("a", "b"), ("b", "a"))
CHECKS = {"1": function("merged", merged, *itertools.product(ROWS, PAIRS)), "+": learn}
