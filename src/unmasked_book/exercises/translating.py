"""Chapter 10's exercises."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from unmasked.evaluation import bleu
from unmasked_book.exercises.compare import same_number

Pieces = list[str]


def too_short(answer: float) -> str | None:
    """Half of the right length, and no other mistake."""
    return same_number(answer, 100 * math.exp(1 - 20 / 10), 0.01)


def merge(answer: Callable[[Pieces, tuple[str, str]], Any]) -> str | None:
    """All neighbours that are the pair, from the left; a piece is used once."""
    dice = random.Random(0)
    cases = [(["a", "a", "a"], ("a", "a")), (["a", "b", "a", "b"], ("a", "b"))]
    cases += [
        (
            dice.choices(["a", "b", "ab"], k=dice.randint(1, 8)),
            (dice.choice("ab"), dice.choice("ab")),
        )
        for _ in range(40)
    ]
    for pieces, pair in cases:
        got, expected = answer(list(pieces), pair), once(pieces, pair)
        if list(got) != expected:
            return f"not yet: {pieces} with {pair} gives {list(got)}, where {expected} is expected."
    return None


def once(pieces: Pieces, pair: tuple[str, str]) -> Pieces:
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


def corpus_bleu(answer: Callable[[list[Pieces], list[Pieces]], Any]) -> str | None:
    """Counts are added up over the sentences, and so are the lengths."""
    dice = random.Random(1)
    for size in (1, 2, 8):
        references = [dice.choices("abcde", k=dice.randint(6, 12)) for _ in range(size)]
        for change in (0.0, 0.1, 0.2):
            written = [
                [word for word in words if dice.random() >= change] + ["a"] * dice.randint(0, 2)
                for words in references
            ]
            written[0] = references[0][:5] + written[0][5:]  # at least one run of four is right
            expected = bleu(*([*map(" ".join, texts)] for texts in (written, references))).score
            got = answer([list(words) for words in written], [list(words) for words in references])
            if wrong := same_number(got, expected, 1e-6):
                sentences = "1 sentence" if size == 1 else f"{size} sentences"
                return f"{wrong} (for {sentences}, it should be {expected:.2f})"
    return None


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
            pieces = {word: once(parts, tuple(pair)) for word, parts in pieces.items()}
    return None


CHECKS = (too_short, merge, corpus_bleu)
PLUS = learn
