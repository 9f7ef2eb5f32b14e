"""A clause before it is in any language: who does what, when, where, and how it is asked."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from .lexicon import Adjective, Adverb, Noun, Preposition, Pronoun, Verb


class Token(NamedTuple):
    """A word and the ideas it expresses. Words of two languages with an idea in common align."""

    word: str
    ideas: tuple[str, ...]


Tokens = list[Token]


def tokens(words: str, *ideas: str) -> Tokens:
    return [Token(word, ideas) for word in words.split()]


@dataclass(frozen=True)
class Nominal:
    """A pronoun, or a noun with what stands before it. `role` tells its ideas from another's."""

    head: Noun | Pronoun
    role: str
    plural: bool = False
    determiner: str = "der"  # der, ein, kein, mein, dein, sein, or nothing
    adjective: Adjective | None = None

    @property
    def agreement(self) -> tuple[int, bool]:
        """What the verb has to agree with: person, and whether there are many."""
        if isinstance(self.head, Pronoun):
            return self.head.person, self.head.plural
        return 3, self.plural

    @property
    def is_pronoun(self) -> bool:
        return isinstance(self.head, Pronoun)


@dataclass(frozen=True)
class Place:
    preposition: Preposition
    nominal: Nominal


@dataclass(frozen=True)
class Clause:
    subject: Nominal
    verb: Verb
    object: Nominal | None = None
    modal: Verb | None = None
    perfect: bool = False
    negated: bool = False
    time: Adverb | None = None
    complement: Place | Adjective | Adverb | None = None  # where or how it is
    first: Literal["subject", "object", "time", "complement"] = "subject"  # in German
    question: bool = False
