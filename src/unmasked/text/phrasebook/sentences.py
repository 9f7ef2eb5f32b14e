"""Draws sentences of several constructions at random, with words that make sense together."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from . import english, german, lexicon
from .clause import Clause, Nominal, Place, Token, Tokens, tokens
from .lexicon import Noun, Verb

T = TypeVar("T")


class Dice:
    """Dice make random choices that are the same for a seed in every version of Python."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def choice(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]


class Sentence(NamedTuple):
    german: Tokens
    english: Tokens
    construction: str
    clauses: tuple[Clause, ...]


# --- Who and what ----------------------------------------------------------------------------


def noun_phrase(dice: Dice, role: str, nouns: Sequence[Noun], indefinite: float = 0.4) -> Nominal:
    noun = dice.choice(nouns)
    plural = noun.german_plural != "-" and dice.chance(0.25)
    owned = noun.german not in lexicon.WITHOUT_OWNER and dice.chance(0.2)
    determiner = dice.choice(list(lexicon.POSSESSIVES)) if owned else "der"
    if dice.chance(indefinite):
        determiner = "" if plural else "ein"
    fitting = [adjective for adjective in lexicon.ADJECTIVES if noun.kind in adjective.kinds]
    adjective = dice.choice(fitting) if dice.chance(0.4) else None
    return Nominal(noun, role, plural, determiner, adjective)


def of_kinds(kinds: Sequence[str]) -> list[Noun]:
    return [noun for noun in lexicon.NOUNS if noun.kind in kinds]


def subject(dice: Dice, verb: Verb) -> Nominal:
    if dice.chance(0.6):
        return Nominal(dice.choice(lexicon.PRONOUNS), "subject")
    animals = verb.infinitive in lexicon.BY_ANIMALS and not verb.particle
    return noun_phrase(dice, "subject", of_kinds(lexicon.LIVING if animals else ("person",)), 0.15)


def thing(dice: Dice, verb: Verb, doer: Nominal) -> Nominal:
    """Draws an object for a verb. Nobody sees himself: me and us go with neither I nor we."""
    if "person" in verb.kinds and dice.chance(0.25):
        person = doer.agreement[0]
        pronouns = [p for p in lexicon.PRONOUNS if p.german_object != "-"]
        others = [p for p in pronouns if p.person != person or person == 3]
        return Nominal(dice.choice(others), "object")
    return noun_phrase(dice, "object", of_kinds(verb.kinds))


# --- Clauses ---------------------------------------------------------------------------------


def action(dice: Dice) -> Clause:
    """Draws a clause in which somebody does, may do, has done or feels something, or does not."""
    verb = dice.choice([*lexicon.VERBS, lexicon.WANT])
    doer = subject(dice, verb)
    said = Clause(doer, verb, thing(dice, verb, doer) if verb.kinds else None)
    times = [*lexicon.HABITS, *lexicon.FREQUENCIES, lexicon.TOMORROW]
    is_feeling = verb.infinitive in lexicon.FEELINGS
    if not is_feeling and dice.chance(0.25):
        said = replace(said, modal=dice.choice(lexicon.MODALS))
        times = [lexicon.TOMORROW, lexicon.TODAY]
    elif not is_feeling and dice.chance(0.35):
        said = replace(said, perfect=True)
        times = [lexicon.YESTERDAY, lexicon.YESTERDAY, lexicon.TODAY]
    if not is_feeling and dice.chance(0.35):
        return replace(said, time=dice.choice(times))
    return deny(said) if dice.chance(0.25) else said


def action_that(dice: Dice, fits: Callable[[Clause], bool]) -> Clause:
    said = action(dice)
    while not fits(said):
        said = action(dice)
    return said


def deny(said: Clause) -> Clause:
    """Returns the clause denied: by `kein`, if its object has no article or an indefinite one."""
    thing = said.object
    if thing and not thing.is_pronoun and thing.determiner in ("", "ein"):
        thing = replace(thing, determiner="kein")
    return replace(said, object=thing, negated=True)


def state(dice: Dice) -> Clause:
    """Draws a clause in which somebody or something is somewhere, or is old, cold or tired."""
    if dice.chance(0.5):
        small = dice.chance(0.5)
        verb, kinds = (lexicon.LIE, lexicon.SMALL) if small else (lexicon.BE, lexicon.LIVING)
        who = noun_phrase(dice, "subject", of_kinds(kinds), 0.3)
        said = Clause(who, verb, complement=place(dice))
    else:
        if dice.chance(0.5):
            who = subject(dice, lexicon.BE)
        else:
            who = noun_phrase(dice, "subject", of_kinds(lexicon.ANYTHING), 0)
        kind = who.head.kind if isinstance(who.head, Noun) else "person"
        adjectives = lexicon.MOODS if kind in lexicon.LIVING else lexicon.ADJECTIVES
        fitting = [adjective for adjective in adjectives if kind in adjective.kinds]
        said = Clause(replace(who, adjective=None), lexicon.BE, complement=dice.choice(fitting))
    return replace(said, negated=dice.chance(0.2))


def place(dice: Dice) -> Place:
    preposition = dice.choice(lexicon.PREPOSITIONS)
    fitting = [noun for noun in lexicon.NOUNS if noun.german.lower() in preposition.places]
    where = noun_phrase(dice, "place", fitting, 0)
    return Place(preposition, replace(where, plural=False, determiner="der"))


# --- Constructions ---------------------------------------------------------------------------


def time_first(dice: Dice) -> Clause:
    without = (None, *lexicon.FREQUENCIES)
    said = action_that(dice, lambda said: not (said.negated or said.time in without))
    return replace(deny(said) if dice.chance(0.2) else said, first="time")


def object_first(dice: Dice) -> Clause:
    """Draws a clause that begins with its object, as an article such as `den` shows."""
    said = action_that(dice, lambda said: not said.negated and shows_its_case(said.object))
    return replace(said, first="object")


def shows_its_case(said: Nominal | None) -> bool:
    if said is None or said.plural or not isinstance(said.head, Noun):
        return False
    return said.head.article == "der"


def yes_or_no(dice: Dice) -> Clause:
    said = state(dice) if dice.chance(0.25) else None
    if said is None or said.negated:
        said = action_that(dice, lambda said: not said.negated)
    return replace(said, question=True)


def who_or_what(dice: Dice) -> Clause:
    said = action_that(dice, lambda said: not said.negated and said.object is not None)
    if dice.chance(0.4):
        return replace(said, subject=Nominal(lexicon.WHO, "subject"), question=True)
    asked = Nominal(lexicon.WHO if said.verb.kinds == ("person",) else lexicon.WHAT, "object")
    return replace(said, object=asked, first="object", question=True)


def when(dice: Dice) -> Clause:
    feelings = lexicon.FEELINGS
    said = action_that(dice, lambda said: not (said.negated or said.verb.infinitive in feelings))
    return replace(said, time=lexicon.WHEN, first="time", question=True)


def where(dice: Dice) -> Clause:
    if dice.chance(0.5):
        staying = [v for v in lexicon.VERBS if v.infinitive in lexicon.STAYING and not v.particle]
        verb = dice.choice(staying)
        said = Clause(subject(dice, verb), verb)
    else:
        said = Clause(noun_phrase(dice, "subject", of_kinds(lexicon.ANYTHING), 0.1), lexicon.BE)
    return replace(said, complement=lexicon.WHERE, first="complement", question=True)


def that(dice: Dice) -> tuple[Clause, Clause]:
    speaker = Nominal(dice.choice(lexicon.PRONOUNS), "subject")
    first = Clause(speaker, dice.choice(lexicon.SAYING))
    return first, action(dice) if dice.chance(0.9) else state(dice)


def because(dice: Dice) -> tuple[Clause, Clause]:
    """Draws two clauses, as of "we are happy because you dance": one has a mood, one an action."""
    if dice.chance(0.5):
        mood = Clause(subject(dice, lexicon.BE), lexicon.BE, complement=dice.choice(lexicon.MOODS))
        return mood, action(dice)
    first = action(dice)
    while (who := pronoun_for(first.subject)) is None:
        first = action(dice)
    mood = Clause(who, lexicon.BE, complement=dice.choice(lexicon.MOODS), negated=dice.chance(0.2))
    return first, mood


def pronoun_for(said: Nominal) -> Nominal | None:
    """Returns the pronoun for a subject, such as `er` for `der mann`; None for `das kind`."""
    if not isinstance(said.head, Noun):
        return said
    name = "they" if said.plural else {"der": "he", "die": "she"}.get(said.head.article)
    found = [p for p in lexicon.PRONOUNS if p.english == name and said.head.kind == "person"]
    return Nominal(found[0], "subject") if found else None


# --- Sentences -------------------------------------------------------------------------------


def alone(name: str, draw: Callable[[Dice], Clause], dice: Dice) -> Sentence:
    said = draw(dice)
    mark = tokens("?", "?") if said.question else []
    return Sentence(german.clause(said) + mark, english.clause(said) + mark, name, (said,))


def joined(
    joint: str, in_german: str, draw: Callable[[Dice], tuple[Clause, Clause]], dice: Dice
) -> Sentence:
    """Draws a sentence of two clauses joined by a word; the German comma aligns with nothing."""
    first, second = draw(dice)
    links = tokens(",") + tokens(in_german, "joint"), tokens(joint, "joint")
    return Sentence(
        german.clause(first) + links[0] + apart(german.subordinate(second)),
        english.clause(first) + links[1] + apart(english.clause(second)),
        joint,
        (first, second),
    )


def apart(words: Tokens) -> Tokens:
    """Returns a clause's tokens with other ideas, so that none aligns with the first clause."""
    return [Token(word, tuple(f"second {idea}" for idea in ideas)) for word, ideas in words]


CONSTRUCTIONS: list[Callable[[Dice], Sentence]] = [  # some of them drawn more often than others
    *[partial(alone, "statement", action)] * 3,
    partial(alone, "time first", time_first),
    partial(alone, "object first", object_first),
    partial(alone, "description", state),
    partial(alone, "yes or no", yes_or_no),
    partial(alone, "who or what", who_or_what),
    partial(alone, "when", when),
    partial(alone, "where", where),
    *[partial(joined, "that", "dass", that)] * 3,
    *[partial(joined, "because", "weil", because)] * 2,
]
