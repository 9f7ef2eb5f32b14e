"""German and English sentences that a small grammar makes, with who translates whom."""

from typing import NamedTuple
from zlib import crc32

from ...errors import require_whole
from .clause import Clause, Place
from .lexicon import Adjective, Noun
from .sentences import CONSTRUCTIONS, Dice, Sentence


class Pair(NamedTuple):
    """Two sentences, in lower case and without a full stop, and their gold alignment."""

    german: str
    english: str
    alignment: frozenset[tuple[int, int]]  # (German word, English word) that say the same
    construction: str


def sentence_pairs(count: int, *, seed: int = 0, held_out: bool = False) -> list[Pair]:
    """Sentences that are all different, the same for the same seed.

    Each held-out sentence has a combination, of a verb and its object or of an adjective and its
    noun, that no training sentence has; each training sentence has none of these.
    """
    require_whole("count", count, 1, 10**6)
    require_whole("seed", seed, 0)
    dice, made = Dice(seed), dict[str, Pair]()
    while len(made) < count:
        sentence = dice.choice(CONSTRUCTIONS)(dice)
        if any(is_held_out(*words) for words in combinations(sentence)) == held_out:
            pair = as_pair(sentence)
            made.setdefault(pair.german, pair)
    return list(made.values())


def as_pair(sentence: Sentence) -> Pair:
    german, english = sentence.german, sentence.english
    ideas = [[set(token.ideas) for token in side] for side in (german, english)]
    alignment = {(i, j) for i, a in enumerate(ideas[0]) for j, b in enumerate(ideas[1]) if a & b}
    texts = [" ".join(token.word for token in side) for side in (german, english)]
    return Pair(texts[0], texts[1], frozenset(alignment), sentence.construction)


def combinations(sentence: Sentence) -> set[tuple[str, str]]:
    """Each verb with its object, each adjective with its noun."""
    return {words for clause in sentence.clauses for words in of_clause(clause)}


def of_clause(clause: Clause) -> set[tuple[str, str]]:
    found = set()
    verb = clause.verb.particle + clause.verb.infinitive
    if clause.object and isinstance(clause.object.head, Noun):
        found.add((verb, clause.object.head.german))
    place = clause.complement.nominal if isinstance(clause.complement, Place) else None
    for nominal in (clause.subject, clause.object, place):
        if nominal and nominal.adjective and isinstance(nominal.head, Noun):
            found.add((nominal.adjective.german, nominal.head.german))
    if isinstance(clause.complement, Adjective) and isinstance(clause.subject.head, Noun):
        found.add((clause.complement.german, clause.subject.head.german))
    return found


def is_held_out(first: str, second: str) -> bool:
    """One combination in eight, chosen by the letters alone."""
    return crc32(f"{first} {second}".encode()) % 8 == 0
