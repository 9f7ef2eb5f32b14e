"""Chapter 10's exercises."""

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from unmasked_book.exercises.compare import function

Pieces = list[str]


def merged(pieces: Pieces, pair: tuple[str, str]) -> Pieces:
    """All neighbours that are the pair, from the left; a piece is used once."""
    done: Pieces = []
    place = 0
    while place < len(pieces):
        if tuple(pieces[place : place + 2]) == pair:
            done.append("".join(pair))
            place += 2
        else:
            done.append(pieces[place])
            place += 1
    return done


def learn(answer: Callable[[dict[str, int], int], Any]) -> str | None:
    """Each merge is one of the most frequent pairs of its time."""
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
            most = max(counts.values(), default=0)
            if counts[tuple(pair)] < most:
                best = next(each for each, count in counts.items() if count == most)
                return (
                    f"not yet: merge {number} of {words} is {tuple(pair)}, which occurs "
                    f"{counts[tuple(pair)]} times; {best} occurs {most} times."
                )
            pieces = {word: merged(parts, tuple(pair)) for word, parts in pieces.items()}
    return None


ROWS = ([*pieces] for n in (3, 4, 1, 5) for pieces in itertools.product(("a", "b", "ab"), repeat=n))
PAIRS = (("a", "a"), ("a", "b"), ("b", "a"))
CHECKS = {"1": function("merged", merged, *itertools.product(ROWS, PAIRS)), "+": learn}
