"""Which words of two languages belong together, learnt from pairs of sentences and nothing else.

The model of Dyer et al. (2013): each target word was made from one source word, more likely from
one at about the same place; which words translate which is learnt by expectation maximisation.
It knows nothing of attention, so that attention can be judged by it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .validation import invalid

Links = frozenset[tuple[int, int]]
Sentences = Sequence[Sequence[int]]

TENSION = 4.0  # how much a word prefers its own place
ROUNDS = 6


def align(source: Sentences, target: Sentences) -> list[Links]:
    """(source place, target place) of each pair: what both directions agree on."""
    if not source:
        fix = "give the sentences of a corpus: it learns from how often words come together"
        raise invalid("source", "at least one sentence", "none", fix)
    if len(source) != len(target) or not all(map(len, (*source, *target))):
        got = f"{len(source)} and {len(target)}, {[*map(len, (*source, *target))].count(0)} empty"
        fix = "leave out pairs of which one side is empty"
        raise invalid("target", "as many sentences as sources, none of them empty", got, fix)
    forth = strongest(source, target)
    back = strongest(target, source)
    return [
        frozenset((s, t) for t, s in enumerate(to) if back_to[s] == t)
        for to, back_to in zip(forth, back, strict=True)
    ]


def word_of_each(pieces: Sequence[str], words: Sequence[str]) -> list[int]:
    """Of subwords such as ▁br own, the number of the word that each is a part of."""
    ends = np.cumsum([len(word) for word in words])
    lengths = [len(piece.replace("▁", "")) for piece in pieces]
    begins = np.cumsum([0, *lengths])[:-1]
    if len(words) == 0 or sum(lengths) != ends[-1]:
        fix = "give the pieces of the same sentence, none of them unknown"
        raise invalid("pieces", "all letters of the words", "".join(pieces), fix)
    return [int(number) for number in np.searchsorted(ends, begins, side="right")]


def between_pieces(links: Links, source: Sequence[int], target: Sequence[int]) -> Links:
    """Links of words as links of subwords: all pieces of one with all pieces of the other."""
    return frozenset(
        (s, t) for s, a in enumerate(source) for t, b in enumerate(target) if (a, b) in links
    )


def strongest(source: Sentences, target: Sentences) -> list[list[int]]:
    """For each target word, the place of the source word that it was most likely made from."""
    firsts, seconds, prior, owner = candidates(source, target)
    pairs = firsts * (seconds.max() + 1) + seconds
    kinds, kind = np.unique(pairs, return_inverse=True)
    word = kinds // (seconds.max() + 1)  # the source word of each kind of pair
    table = np.ones(len(kinds))
    for _ in range(ROUNDS):
        weight = table[kind] * prior
        weight /= np.bincount(owner, weight)[owner]  # of each target word, over its candidates
        counts = np.bincount(kind, weight, len(kinds))
        table = counts / np.bincount(word, counts)[word]
    return best(table[kind] * prior, source, target)


def candidates(
    source: Sentences, target: Sentences
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Each target word beside each source word of its sentence: both words, a prior, the owner.

    The owner is the target word's number in the whole text; the prior falls with the distance
    from the diagonal.
    """
    firsts, seconds, priors, owners = [], [], [], []
    before = 0
    for a, b in zip(source, target, strict=True):
        s, t = len(a), len(b)
        firsts.append(np.tile(a, t))
        seconds.append(np.repeat(b, s))
        place = np.abs(np.arange(s)[None] / s - np.arange(t)[:, None] / t)
        priors.append(np.exp(-TENSION * place).ravel())
        owners.append(before + np.repeat(np.arange(t), s))
        before += t
    together = (np.concatenate(part) for part in (firsts, seconds, priors, owners))
    return tuple(together)  # type: ignore[return-value]


def best(score: np.ndarray, source: Sentences, target: Sentences) -> list[list[int]]:
    """The place of the highest score, for each target word of each pair."""
    found, begin = [], 0
    for a, b in zip(source, target, strict=True):
        grid = score[begin : begin + len(a) * len(b)].reshape(len(b), len(a))
        found.append([int(place) for place in grid.argmax(1)])
        begin += grid.size
    return found
