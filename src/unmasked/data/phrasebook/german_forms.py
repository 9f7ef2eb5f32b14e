"""The endings of German articles, adjectives and verbs."""

from __future__ import annotations

from .lexicon import IRREGULAR, Noun, Verb

NOMINATIVE, ACCUSATIVE, DATIVE = range(3)
DER = {"der": ("der", "den", "dem"), "die": ("die", "die", "der"), "das": ("das", "das", "dem"),
       "plural": ("die", "die", "den")}  # fmt: skip
EIN = {"der": ("", "en", "em"), "die": ("e", "e", "er"), "das": ("", "", "em"),
       "plural": ("e", "e", "en")}  # fmt: skip
# What an adjective ends with, after der …, after ein, kein, mein …, and without an article.
WEAK = {"der": ("e", "en", "en"), "die": ("e", "e", "en"), "das": ("e", "e", "en"),
        "plural": ("en", "en", "en")}  # fmt: skip
MIXED = {"der": ("er", "en", "en"), "die": ("e", "e", "en"), "das": ("es", "es", "en"),
         "plural": ("en", "en", "en")}  # fmt: skip
STRONG = {"plural": ("e", "e", "en")}


def form(noun: Noun, plural: bool) -> str:
    return "plural" if plural else noun.article


def determiner(word: str, noun: Noun, plural: bool, case: int) -> str:
    """`der` or a word like `ein`, with its ending; nothing for no article."""
    if word == "der":
        return DER[form(noun, plural)][case]
    return word and word + EIN[form(noun, plural)][case]


def adjective(word: str, article: str, noun: Noun, plural: bool, case: int) -> str:
    endings = {"der": WEAK, "": STRONG}.get(article, MIXED)
    return word + endings[form(noun, plural)][case]


def conjugate(verb: Verb, person: int, plural: bool) -> str:
    """The present tense, without the particle of a separable verb."""
    first, second = IRREGULAR.get(verb.infinitive, (verb.infinitive[:-1], ""))
    stem = verb.infinitive[:-2]
    if not plural:
        return (first, verb.du, verb.er)[person - 1]
    if person == 2:
        return second or stem + ("et" if stem[-1] in "td" else "t")
    return "sind" if verb.infinitive == "sein" else verb.infinitive
