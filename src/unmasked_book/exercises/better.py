"""Judges answers to the exercises of chapter 11."""

import math
import random

from unmasked.evaluation import bleu
from unmasked_book.exercises.compare import function, number
from unmasked_book.experiments.statistics import difference

Words = list[str]
RUNS = (
    ([0.31, 0.28, 0.35, 0.30, 0.33], [0.22, 0.24, 0.25, 0.21, 0.26]),
    ([1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 1.0, 2.0, 3.0, 4.5]),
    ([0.9, 0.2, 0.4, 0.8, 0.1], [0.5, 0.6, 0.3, 0.9, 0.4]),
)


def corpus_bleu(written: list[Words], references: list[Words]) -> float:
    """Returns the BLEU of sentences of words, with counts and lengths added up over all."""
    return bleu(*([*map(" ".join, texts)] for texts in (written, references))).score


def translated(size: int, change: float) -> tuple[list[Words], list[Words]]:
    """Returns `size` random sentences with words left out and put in, and the originals."""
    dice = random.Random(f"{size} {change}")
    references = [dice.choices("abcde", k=dice.randint(6, 12)) for _ in range(size)]
    written = [
        [word for word in words if dice.random() >= change] + ["a"] * dice.randint(0, 2)
        for words in references
    ]
    written[0] = references[0][:5] + written[0][5:]  # at least one run of four is right
    return written, references


TEXTS = [translated(size, change) for size in (1, 2, 8) for change in (0.0, 0.1, 0.2)]
CHECKS = {
    "1": number(100 * math.exp(1 - 20 / 10), 0.01),  # half of the right length, no other mistake
    "2": function("sure_gain", lambda a, b: difference(a, b).low, *RUNS, tolerance=0.01),
    "+": function("corpus_bleu", corpus_bleu, *TEXTS, tolerance=1e-6),
}
