"""The kinds of sentences in the phrasebook, each drawn at random from what makes sense."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from . import english, german
from .clause import Clause, Nominal, Place, Token, Tokens, tokens
from .lexicon import (
    ADJECTIVES,
    ANYTHING,
    BE,
    BY_ANIMALS,
    FEELINGS,
    FREQUENCIES,
    HABITS,
    LIE,
    LIVING,
    MODALS,
    MOODS,
    NOUNS,
    POSSESSIVES,
    PREPOSITIONS,
    PRONOUNS,
    SAYING,
    SMALL,
    STAYING,
    TODAY,
    TOMORROW,
    VERBS,
    WANT,
    WHAT,
    WHEN,
    WHERE,
    WHO,
    WITHOUT_OWNER,
    YESTERDAY,
    Noun,
    Verb,
)

T = TypeVar("T")


class Dice:
    """Random choices that are the same for a seed in every version of Python."""

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
    owned = noun.german not in WITHOUT_OWNER and dice.chance(0.2)
    determiner = dice.choice(list(POSSESSIVES)) if owned else "der"
    if dice.chance(indefinite):
        determiner = "" if plural else "ein"
    fitting = [adjective for adjective in ADJECTIVES if noun.kind in adjective.kinds]
    adjective = dice.choice(fitting) if dice.chance(0.4) else None
    return Nominal(noun, role, plural, determiner, adjective)


def of_kinds(kinds: Sequence[str]) -> list[Noun]:
    return [noun for noun in NOUNS if noun.kind in kinds]


def subject(dice: Dice, verb: Verb) -> Nominal:
    if dice.chance(0.6):
        return Nominal(dice.choice(PRONOUNS), "subject")
    animals = verb.infinitive in BY_ANIMALS and not verb.particle
    return noun_phrase(dice, "subject", of_kinds(LIVING if animals else ("person",)), 0.15)


def thing(dice: Dice, verb: Verb, doer: Nominal) -> Nominal:
    """The object. Nobody sees himself: me and us go with neither I nor we."""
    if "person" in verb.kinds and dice.chance(0.25):
        person = doer.agreement[0]
        others = [
            p for p in PRONOUNS if p.german_object != "-" and (p.person != person or person == 3)
        ]
        return Nominal(dice.choice(others), "object")
    return noun_phrase(dice, "object", of_kinds(verb.kinds))


# --- Clauses ---------------------------------------------------------------------------------


def action(dice: Dice) -> Clause:
    """Somebody does something, may do it, has done it; now, often, not. Or somebody feels."""
    verb = dice.choice([*VERBS, WANT])
    doer = subject(dice, verb)
    said = Clause(doer, verb, thing(dice, verb, doer) if verb.kinds else None)
    times = [*HABITS, *FREQUENCIES, TOMORROW]
    is_feeling = verb.infinitive in FEELINGS
    if not is_feeling and dice.chance(0.25):
        said, times = replace(said, modal=dice.choice(MODALS)), [TOMORROW, TODAY]
    elif not is_feeling and dice.chance(0.35):
        said, times = replace(said, perfect=True), [YESTERDAY, YESTERDAY, TODAY]
    if not is_feeling and dice.chance(0.35):
        return replace(said, time=dice.choice(times))
    return deny(said) if dice.chance(0.25) else said


def action_that(dice: Dice, fits: Callable[[Clause], bool]) -> Clause:
    """Drawn again until it fits."""
    said = action(dice)
    while not fits(said):
        said = action(dice)
    return said


def deny(said: Clause) -> Clause:
    """With `kein` if the object has no article or an indefinite one."""
    thing = said.object
    if thing and not thing.is_pronoun and thing.determiner in ("", "ein"):
        thing = replace(thing, determiner="kein")
    return replace(said, object=thing, negated=True)


def state(dice: Dice) -> Clause:
    """Somebody or something is somewhere, or is old, cold, tired."""
    if dice.chance(0.5):
        small = dice.chance(0.5)
        who = noun_phrase(dice, "subject", of_kinds(SMALL if small else LIVING), 0.3)
        said = Clause(who, LIE if small else BE, complement=place(dice))
    else:
        things = of_kinds(ANYTHING)
        who = subject(dice, BE) if dice.chance(0.5) else noun_phrase(dice, "subject", things, 0)
        kind = who.head.kind if isinstance(who.head, Noun) else "person"
        fitting = MOODS if kind in LIVING else [a for a in ADJECTIVES if kind in a.kinds]
        said = Clause(replace(who, adjective=None), BE, complement=dice.choice(fitting))
    return replace(said, negated=dice.chance(0.2))


def place(dice: Dice) -> Place:
    preposition = dice.choice(PREPOSITIONS)
    fitting = [noun for noun in NOUNS if noun.german.lower() in preposition.places]
    where = noun_phrase(dice, "place", fitting, 0)
    return Place(preposition, replace(where, plural=False, determiner="der"))


# --- Sentences -------------------------------------------------------------------------------


def plain(name: str, said: Clause) -> Sentence:
    mark = tokens("?", "?") if said.question else []
    return Sentence(german.clause(said) + mark, english.clause(said) + mark, name, (said,))


def statement(dice: Dice) -> Sentence:
    return plain("statement", action(dice))


def time_first(dice: Dice) -> Sentence:
    said = action_that(
        dice, lambda said: not (said.negated or said.time is None or said.time in FREQUENCIES)
    )
    return plain("time first", replace(deny(said) if dice.chance(0.2) else said, first="time"))


def object_first(dice: Dice) -> Sentence:
    """Only where the article shows that it is the object: `den`, `einen`, `meinen`."""
    said = action_that(dice, lambda said: not said.negated and shows_its_case(said.object))
    return plain("object first", replace(said, first="object"))


def shows_its_case(said: Nominal | None) -> bool:
    if said is None or said.plural or not isinstance(said.head, Noun):
        return False
    return said.head.article == "der"


def description(dice: Dice) -> Sentence:
    return plain("description", state(dice))


def yes_or_no(dice: Dice) -> Sentence:
    said = state(dice) if dice.chance(0.25) else None
    if said is None or said.negated:
        said = action_that(dice, lambda said: not said.negated)
    return plain("yes or no", replace(said, question=True))


def who_or_what(dice: Dice) -> Sentence:
    said = action_that(dice, lambda said: not said.negated and said.object is not None)
    if dice.chance(0.4):
        who = Nominal(WHO, "subject")
        return plain("who or what", replace(said, subject=who, question=True))
    asked = Nominal(WHO if said.verb.kinds == ("person",) else WHAT, "object")
    return plain("who or what", replace(said, object=asked, first="object", question=True))


def when(dice: Dice) -> Sentence:
    said = action_that(dice, lambda said: not said.negated and said.verb.infinitive not in FEELINGS)
    return plain("when", replace(said, time=WHEN, first="time", question=True))


def where(dice: Dice) -> Sentence:
    if dice.chance(0.5):
        staying = [v for v in VERBS if v.infinitive in STAYING and not v.particle]
        verb = dice.choice(staying)
        said = Clause(subject(dice, verb), verb)
    else:
        said = Clause(noun_phrase(dice, "subject", of_kinds(ANYTHING), 0.1), BE)
    return plain("where", replace(said, complement=WHERE, first="complement", question=True))


def that(dice: Dice) -> Sentence:
    speaker = Nominal(dice.choice(PRONOUNS), "subject")
    first = Clause(speaker, dice.choice(SAYING))
    said = action(dice) if dice.chance(0.9) else state(dice)
    return joined("that", first, "dass", "that", said)


def because(dice: Dice) -> Sentence:
    """We are happy because you dance, or you dance because you are happy."""
    if dice.chance(0.5):
        mood = Clause(subject(dice, BE), BE, complement=dice.choice(MOODS))
        return joined("because", mood, "weil", "because", action(dice))
    first = action(dice)
    while (who := pronoun_for(first.subject)) is None:
        first = action(dice)
    said = Clause(who, BE, complement=dice.choice(MOODS), negated=dice.chance(0.2))
    return joined("because", first, "weil", "because", said)


def pronoun_for(said: Nominal) -> Nominal | None:
    """Who is tired: `er` for a man, `sie` for a woman and for many; `es` we leave out."""
    if not isinstance(said.head, Noun):
        return said
    name = "they" if said.plural else {"der": "he", "die": "she"}.get(said.head.article)
    found = [p for p in PRONOUNS if p.english == name and said.head.kind == "person"]
    return Nominal(found[0], "subject") if found else None


def joined(name: str, first: Clause, joint: str, in_english: str, second: Clause) -> Sentence:
    """Two clauses and the word that joins them; in German after a comma, which has no partner."""
    in_german = tokens(",") + tokens(joint, "joint")
    return Sentence(
        german.clause(first) + in_german + apart(german.subordinate(second)),
        english.clause(first) + tokens(in_english, "joint") + apart(english.clause(second)),
        name,
        (first, second),
    )


def apart(words: Tokens) -> Tokens:
    """The ideas of a second clause, told apart from those of the first."""
    return [Token(word, tuple(f"second {idea}" for idea in ideas)) for word, ideas in words]


CONSTRUCTIONS: list[Callable[[Dice], Sentence]] = [
    statement, statement, statement, time_first, object_first, description, yes_or_no,
    who_or_what, when, where, that, that, that, because, because,
]  # fmt: skip
