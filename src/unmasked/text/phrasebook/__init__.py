"""Draws German and English sentences from a small grammar, with the words that correspond."""

from zlib import crc32

from ...errors import require_whole
from ..aligned import Pair
from .clause import Clause, Place
from .lexicon import Adjective, Noun
from .sentences import CONSTRUCTIONS, Dice, Sentence


def sentence_pairs(count: int, *, seed: int = 0, held_out: bool = False) -> list[Pair]:
    """Returns `count` different pairs of sentences, the same for the same seed.

    Each held-out sentence combines a verb and an object, or an adjective and a noun, that no
    training sentence combines.
    """
    require_whole("count", count, 1, 10**6)
    dice, made = Dice(seed), dict[str, Pair]()
    while len(made) < count:
        sentence = dice.choice(CONSTRUCTIONS)(dice)
        if any(is_held_out(*words) for words in combinations(sentence)) == held_out:
            pair = as_pair(sentence)
            made.setdefault(pair.german, pair)
    return list(made.values())


def as_pair(sentence: Sentence) -> Pair:
    german, english = (" ".join(token.word for token in side) for side in sentence[:2])
    ideas = [[set(token.ideas) for token in side] for side in sentence[:2]]
    alignment = {(i, j) for i, a in enumerate(ideas[0]) for j, b in enumerate(ideas[1]) if a & b}
    return Pair(german, english, frozenset(alignment), sentence.construction)


def combinations(sentence: Sentence) -> set[tuple[str, str]]:
    """Returns a sentence's German word pairs of verb and object, and of adjective and noun."""
    return {words for clause in sentence.clauses for words in of_clause(clause)}


def of_clause(clause: Clause) -> set[tuple[str, str]]:
    found, end = set(), clause.complement
    if clause.object and isinstance(clause.object.head, Noun):
        found.add((clause.verb.particle + clause.verb.infinitive, clause.object.head.german))
    place = end.nominal if isinstance(end, Place) else None
    for nominal in (clause.subject, clause.object, place):
        if nominal and nominal.adjective and isinstance(nominal.head, Noun):
            found.add((nominal.adjective.german, nominal.head.german))
    if isinstance(end, Adjective) and isinstance(clause.subject.head, Noun):
        found.add((end.german, clause.subject.head.german))
    return found


def is_held_out(first: str, second: str) -> bool:
    """Returns True if no training sentence combines two words: one pair in eight, by checksum."""
    return crc32(f"{first} {second}".encode()) % 8 == 0
