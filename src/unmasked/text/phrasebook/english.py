"""Writes clauses in English, where a helping verb asks and denies."""

from typing import NamedTuple

from .clause import Clause, Nominal, Place, Tokens, tokens
from .lexicon import FREQUENCIES, POSSESSIVES, TOMORROW, WHEN, YESTERDAY, Adjective, Adverb, Pronoun


def present(verb: str, person: int, plural: bool) -> str:
    """Returns a verb's form in the present: in `look for`, the first word takes the ending."""
    if verb == "be":
        return {(1, False): "am", (3, False): "is"}.get((person, plural), "are")
    if plural or person != 3:
        return verb
    first, *rest = verb.split()
    first = "ha" if first == "have" else first
    ending = "es" if first.endswith(("s", "sh", "ch", "x", "o")) else "s"
    return " ".join([first + ending, *rest])


class Verbs(NamedTuple):
    helper: Tokens
    rest: Tokens
    alone: Tokens | None = None  # instead of both, in a plain statement


def clause(said: Clause) -> Tokens:
    """Returns the English tokens of a main or subordinate clause (they are alike) or a question."""
    helper, rest, alone = verbs(said)
    subject = nominal(said.subject, is_object=False)
    parts = {
        "object": nominal(said.object, is_object=True) if said.object else [],
        "complement": complement(said.complement),
        "up": [],
        "time": tokens(said.time.english, "when") if said.time else [],
    }
    front = parts.pop(said.first, []) if said.question or said.first == "time" else []
    often = parts.pop("time", []) if said.time in FREQUENCIES else []
    if said.question and subject[0].word != "who":
        words = helper + subject
    elif alone is not None and not said.negated:
        words, rest = subject, alone
    else:
        words = subject + helper
    if said.object and said.object.is_pronoun and rest and rest[-1].word == "up":
        parts["up"] = [rest.pop()]  # pick up the child, but pick her up
    end = [token for part in parts.values() for token in part]
    return front + words + denial(said) + often + rest + end


def verbs(said: Clause) -> Verbs:
    verb, who = said.verb.english, said.subject.agreement
    if said.modal:
        return modal_verbs(said)
    if said.perfect and said.time in (YESTERDAY, WHEN):  # I have bought it; I bought it yesterday
        past = tokens(said.verb.past, "verb", "perfect")
        return Verbs(tokens("did", "perfect"), tokens(verb, "verb"), past)
    if said.perfect:
        helper = tokens(present("have", *who), "perfect")
        return Verbs(helper, tokens(said.verb.english_participle, "verb"))
    if said.time is TOMORROW:
        return Verbs(tokens("will", "when"), tokens(verb, "verb"))
    alone = tokens(present(verb, *who), "verb")
    return Verbs(alone, []) if verb == "be" else Verbs(do(said), tokens(verb, "verb"), alone)


def modal_verbs(said: Clause) -> Verbs:
    assert said.modal is not None
    verb, modal = tokens(said.verb.english, "verb"), said.modal.english
    if modal == "want to":
        alone = tokens(present(modal, *said.subject.agreement), "modal")
        return Verbs(do(said), tokens(modal, "modal") + verb, alone + verb)
    if not said.negated:
        return Verbs(tokens(modal, "modal"), verb)
    if modal == "must":  # he must; he does not have to
        return Verbs(do(said), tokens("have to", "modal") + verb)
    if modal == "can":
        return Verbs(tokens("cannot", "modal", "not"), verb)
    return Verbs(tokens({"may": "must", "should": "should"}[modal], "modal"), verb)


def do(said: Clause) -> Tokens:
    """Returns `do` or `does`, aligned with what denies in German, or else with modal or verb."""
    word = present("do", *said.subject.agreement)
    return tokens(word, "not" if said.negated else "modal" if said.modal else "verb")


def denial(said: Clause) -> Tokens:
    merged = said.modal is not None and said.modal.english == "can"
    return tokens("not", "not") if said.negated and not merged else []


def nominal(said: Nominal, *, is_object: bool) -> Tokens:
    role, noun = said.role, said.head
    if isinstance(noun, Pronoun):
        return tokens(noun.english_object if is_object else noun.english, role)
    words = tokens(said.adjective.english, f"{role} adjective") if said.adjective else []
    words += tokens(noun.english_plural if said.plural else noun.english, role)
    one = "an" if words[0].word[0] in "aeiou" else "a"
    none = "any" if said.plural or noun.kind == "drink" else one  # not a cat, but not any coffee
    articles = {"der": "the", "ein": one, "kein": none, "": "", **POSSESSIVES}
    return tokens(articles[said.determiner], f"{role} article") + words


def complement(said: Place | Adjective | Adverb | None) -> Tokens:
    if isinstance(said, Place):
        where = tokens(said.preposition.english, "where")
        return where + nominal(said.nominal, is_object=True)
    return tokens(said.english, "how") if said else []
