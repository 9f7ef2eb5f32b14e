"""Describes a clause before it is in any language: who does what, when, where, and how."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from .lexicon import Adjective, Adverb, Noun, Preposition, Pronoun, Verb


class Token(NamedTuple):
    """A Token is a word with its ideas: words of two languages that share an idea are aligned."""

    word: str
    ideas: tuple[str, ...]


Tokens = list[Token]


def tokens(words: str, *ideas: str) -> Tokens:
    return [Token(word, ideas) for word in words.split()]


@dataclass(frozen=True)
class Nominal:
    """A Nominal is a pronoun, or a noun with article and adjective, in a role such as subject."""

    head: Noun | Pronoun
    role: str
    plural: bool = False
    determiner: str = "der"  # der, ein, kein, mein, dein, sein, or nothing
    adjective: Adjective | None = None

    @property
    def agreement(self) -> tuple[int, bool]:
        """Returns what the verb must agree with: the person (1 to 3), and True for the plural."""
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
