"""Writes clauses in German, with all endings; the finite verb stands second, or last."""

from .clause import Clause, Nominal, Place, Tokens, tokens
from .lexicon import BE, HAVE, IRREGULAR, Adjective, Adverb, Pronoun, Verb

NOMINATIVE, ACCUSATIVE, DATIVE = range(3)
DER = {"der": ("der", "den", "dem"), "die": ("die", "die", "der"), "das": ("das", "das", "dem"),
       "plural": ("die", "die", "den")}  # fmt: skip
EIN = {"der": ("", "en", "em"), "die": ("e", "e", "er"), "das": ("", "", "em"),
       "plural": ("e", "e", "en")}  # fmt: skip
# The endings of an adjective after der …, after ein, kein, mein …, and without an article.
WEAK = {"der": ("e", "en", "en"), "die": ("e", "e", "en"), "das": ("e", "e", "en"),
        "plural": ("en", "en", "en")}  # fmt: skip
MIXED = {"der": ("er", "en", "en"), "die": ("e", "e", "en"), "das": ("es", "es", "en"),
         "plural": ("en", "en", "en")}  # fmt: skip
STRONG = {"plural": ("e", "e", "en")}


def determiner(word: str, form: str, case: int) -> str:
    """Returns `der` or a word like `ein`, declined for gender (or plural) and case; "" stays ""."""
    if word == "der":
        return DER[form][case]
    return word and word + EIN[form][case]


def conjugate(verb: Verb, person: int, plural: bool) -> str:
    """Returns a verb's form in the present tense, without the particle of a separable verb."""
    first, second = IRREGULAR.get(verb.infinitive, (verb.infinitive[:-1], ""))
    stem = verb.infinitive[:-2]
    if not plural:
        return (first, verb.du, verb.er)[person - 1]
    if person == 2:
        return second or stem + ("et" if stem[-1] in "td" else "t")
    return "sind" if verb.infinitive == "sein" else verb.infinitive


def clause(said: Clause) -> Tokens:
    """Returns the German tokens of a main clause or a question."""
    finite, tail = verb(said)
    parts = middle(said)
    asked = said.question and said.first == "subject" and said.subject.head.german != "wer"
    words = finite + parts.pop("subject") if asked else parts.pop(said.first) + finite
    return words + [token for part in parts.values() for token in part] + tail


def subordinate(said: Clause) -> Tokens:
    """Returns a clause's tokens as after `dass`: verbs at its end, a separable one in one word."""
    finite, tail = verb(said)
    words = [token for part in middle(said).values() for token in part]
    if tail and tail[0].word == said.verb.particle:
        return words + tokens(said.verb.particle + finite[0].word, *finite[0].ideas)
    return words + tail + finite


def verb(said: Clause) -> tuple[Tokens, Tokens]:
    """Returns the finite verb, and the infinitive, participle or particle at the clause's end."""
    who = said.subject.agreement
    if said.modal:
        infinitive = said.verb.particle + said.verb.infinitive
        return tokens(conjugate(said.modal, *who), "modal"), tokens(infinitive, "verb")
    if said.perfect:
        auxiliary = conjugate(HAVE if said.verb.auxiliary == "hat" else BE, *who)
        return tokens(auxiliary, "perfect"), tokens(said.verb.participle, "verb")
    return tokens(conjugate(said.verb, *who), "verb"), tokens(said.verb.particle, "verb")


def middle(said: Clause) -> dict[str, Tokens]:
    """Returns subject, object, time, `nicht` and complement by name, in a plain clause's order."""
    parts = {
        "subject": nominal(said.subject, NOMINATIVE),
        "object": nominal(said.object, ACCUSATIVE) if said.object else [],
        "time": tokens(said.time.german, "when") if said.time else [],
    }
    if said.object and not said.object.is_pronoun:
        parts["object"] = parts.pop("object")  # to the end
    says_no = said.object is not None and said.object.determiner == "kein"
    parts["not"] = tokens("nicht", "not") if said.negated and not says_no else []
    parts["complement"] = complement(said.complement)
    return parts


def nominal(said: Nominal, case: int) -> Tokens:
    role, noun = said.role, said.head
    if isinstance(noun, Pronoun):
        return tokens(noun.german if case == NOMINATIVE else noun.german_object, role)
    form = "plural" if said.plural else noun.article
    article = determiner(said.determiner, form, case)
    words = tokens(article, f"{role} article", *["not"] * (said.determiner == "kein"))
    if said.adjective:
        endings = {"der": WEAK, "": STRONG}.get(said.determiner, MIXED)
        words += tokens(said.adjective.german + endings[form][case], f"{role} adjective")
    return words + tokens(noun.german_plural if said.plural else noun.german, role)


def complement(said: Place | Adjective | Adverb | None) -> Tokens:
    if not isinstance(said, Place):
        return tokens(said.german, "how") if said else []
    where = tokens(said.preposition.german, "where")
    what = nominal(said.nominal, DATIVE)
    if (where[0].word, what[0].word) == ("in", "dem"):
        return tokens("im", *where[0].ideas, *what[0].ideas) + what[1:]
    return where + what
