"""The phrasebook against German and English written by hand, and what its pairs promise."""

import hashlib
import re
from collections import Counter
from functools import cache

import pytest

from helpers.refusals import refusals
from unmasked.text import phrasebook
from unmasked.text.phrasebook import (
    as_pair,
    combinations,
    german,
    is_held_out,
    of_clause,
    sentence_pairs,
)
from unmasked.text.phrasebook import lexicon as words
from unmasked.text.phrasebook.clause import Clause, Nominal, Place
from unmasked.text.phrasebook.lexicon import PRONOUNS, WHAT, WHO, Pronoun
from unmasked.text.phrasebook.sentences import (
    CONSTRUCTIONS,
    Dice,
    action,
    joined,
    plain,
)

# --- Sentences written by hand ----------------------------------------------------------------

ICH, DU, ER, SIE, WIR, *_ = PRONOUNS
NOUN = {noun.german: noun for noun in words.NOUNS}
ADJECTIVE = {adjective.german: adjective for adjective in [*words.ADJECTIVES, *words.MOODS]}
VERBS = [*words.VERBS, *words.SAYING, words.WANT, words.LIE, words.BE, words.HAVE]
VERB = {verb.particle + verb.infinitive: verb for verb in VERBS}
MODAL = {verb.infinitive: verb for verb in words.MODALS}
DAYS = [words.YESTERDAY, words.TODAY, words.TOMORROW, words.WHEN]
TIME = {adverb.german: adverb for adverb in [*DAYS, *words.HABITS, *words.FREQUENCIES]}
PLACED = {preposition.german: preposition for preposition in words.PREPOSITIONS}


def nominal(said, role):
    """A pronoun, or `ein alt hund`; + stands for many, - for no article."""
    if isinstance(said, Pronoun):
        return Nominal(said, role)
    determiner, *adjective, noun = said.rstrip("+").split()
    determiner = {"die": "der", "das": "der", "-": ""}.get(determiner, determiner)
    described = ADJECTIVE[adjective[0]] if adjective else None
    return Nominal(NOUN[noun], role, said.endswith("+"), determiner, described)


def say(who, verb, what=None, *, modal=None, time=None, how=None, at=None, **rest):
    return Clause(
        nominal(who, "subject"),
        VERB[verb],
        nominal(what, "object") if what else None,
        modal=MODAL[modal] if modal else None,
        time=TIME[time] if time else None,
        complement=Place(PLACED[at[0]], nominal(at[1], "place")) if at else ADJECTIVE.get(how, how),
        **rest,
    )


def no(*given, **rest):
    return say(*given, negated=True, **rest)


def ask(*given, **rest):
    return say(*given, question=True, **rest)


def both(first, joint, second):
    in_english = {"dass": "that", "weil": "because"}[joint]
    return joined("joined", first, joint, in_english, second)


def whole(said):
    return plain("plain", said) if isinstance(said, Clause) else said


# `nicht=does/not`: a German word with the English ones that it is aligned with.
GOLDEN = [
    # --- a statement: tense, time, and what stands where
    (say(SIE, "suchen", ER), "sie=she sucht=looks/for ihn=him", "she looks for him"),
    (say("die ärztin+", "kaufen", "das rot auto", time="morgen"),
     "die ärztinnen kaufen morgen das rote auto", "the doctors will buy the red car tomorrow"),
    (say(ICH, "finden", "der ball", perfect=True, time="gestern"),
     "ich=i habe=found gestern=yesterday den=the ball=ball gefunden=found",
     "i found the ball yesterday"),
    # --- separable verbs: pick up the child, but pick her up
    (say("die frau", "abholen", ER, time="abends"),
     "die=the frau=woman holt=picks/up ihn=him abends=in/the/evening ab=picks/up",
     "the woman picks him up in the evening"),
    # --- modals, not and kein
    (no(ER, "abholen", WIR, modal="müssen"),
     "er=he muss=have/to uns=us nicht=does/not abholen=pick/up",
     "he does not have to pick us up"),
    (no(ER, "kaufen", "kein ei+"),
     "er=he kauft=buy keine=does/not/any eier=eggs", "he does not buy any eggs"),
    (no(ICH, "finden", "der ball", perfect=True, time="gestern"),
     "ich=i habe=did gestern=yesterday den=the ball=ball nicht=not gefunden=find",
     "i did not find the ball yesterday"),
    (no(ER, "kaufen", "kein alt auto", modal="dürfen"),
     "er=he darf=must kein=not/an altes=old auto=car kaufen=buy", "he must not buy an old car"),
    # --- the time or the object first
    (say(ER, "warten", time="morgen", first="time"),
     "morgen=tomorrow/will wartet=wait er=he", "tomorrow he will wait"),
    # --- where and how somebody is
    (say("das neu hemd", "liegen", at=("in", "der garten")),
     "das=the neue=new hemd=shirt liegt=is im=in/the garten=garden",
     "the new shirt is in the garden"),
    # --- questions
    (ask(DU, "kommen", modal="möchten"),
     "möchtest=do/want/to du=you kommen=come ?=?", "do you want to come ?"),
    (ask(WHO, "aufmachen", "das fenster", time="immer"),
     "wer macht immer das fenster auf ?", "who always opens the window ?"),
    (ask(DU, "aufmachen", WHAT, first="object"),
     "was=what machst=do/open du=you auf=do/open ?=?", "what do you open ?"),
    (ask(DU, "kommen", time="wann", first="time", perfect=True),
     "wann=when bist=did du=you gekommen=come ?=?", "when did you come ?"),
    # --- dass and weil: all verbs at the end, the particle with its verb; two clauses told apart
    (both(say(SIE, "glauben"), "dass", say(SIE, "anziehen", "ein hut")),
     "sie=she glaubt=believes ,= dass=that sie=she einen=a hut=hat anzieht=puts/on",
     "she believes that she puts on a hat"),
    (both(no("die frau", "tanzen"), "weil", say("die frau", "sein", how="müde")),
     "die=the frau=woman tanzt=dance nicht=does/not ,= weil=because "
     "die=the frau=woman müde=tired ist=is",
     "the woman does not dance because the woman is tired"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "in_german", "in_english"), GOLDEN, ids=[x[1] for x in GOLDEN])
def test_a_sentence_its_translation_and_its_alignment(said, in_german, in_english):
    pair = as_pair(whole(said))
    assert pair.german == re.sub(r"=\S*", "", in_german)
    assert pair.english == in_english
    if "=" in in_german:
        partners = pair.english.split()
        assert in_german == " ".join(
            f"{word}={'/'.join(partners[j] for k, j in sorted(pair.alignment) if k == i)}"
            for i, word in enumerate(pair.german.split())
        )


# --- What is drawn ----------------------------------------------------------------------------


def drawn(count, **options):
    """Pairs, each with the combinations that its sentence has."""
    found = {}

    def note(sentence):
        pair = as_pair(sentence)
        found.setdefault(pair.german, combinations(sentence))
        return pair

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phrasebook, "as_pair", note)
        return [(pair, found[pair.german]) for pair in sentence_pairs(count, **options)]


@cache
def sentences():
    """Sentences as they are drawn: the same one may come again."""
    dice = Dice(5)
    return [dice.choice(CONSTRUCTIONS)(dice) for _ in range(4000)]


def test_each_construction_is_drawn_and_a_sentence_has_one_translation_and_one_alignment():
    """Of all words but the comma."""
    found, counts = {}, Counter()
    for sentence in sentences():
        pair = as_pair(sentence)
        assert found.setdefault(pair.german, pair)[1:3] == pair[1:3]
        aligned = [set(side) for side in zip(*pair.alignment, strict=True)]
        assert aligned[0] == {i for i, word in enumerate(pair.german.split()) if word != ","}
        assert aligned[1] == set(range(len(pair.english.split())))
        counts[pair.construction] += 1
    assert len(found) < 3950  # so many came again
    assert len(counts) == len(set(CONSTRUCTIONS))
    combined = set().union(*(combinations(sentence) for sentence in sentences()))
    assert 0.09 < sum(is_held_out(*words) for words in combined) / len(combined) < 0.16


def test_there_are_more_than_a_million_training_pairs():
    """`that` draws speaker, verb and clause each on its own: 28 introductions times its clauses.

    Of clauses there are at least so many as were drawn, and once² / 2 twice more (Chao, 1984).
    """

    def text(tokens):
        return " ".join(token.word for token in tokens)

    speakers = [Clause(nominal(who, "subject"), verb) for who in PRONOUNS for verb in words.SAYING]
    introductions = {text(german.clause(said)) for said in speakers}
    dice, drawn = Dice(0), Counter()
    while drawn.total() < 5000:
        said = action(dice)
        if not any(is_held_out(*combination) for combination in of_clause(said)):
            drawn[text(german.subordinate(said))] += 1
    times = Counter(drawn.values())
    clauses = len(drawn) + times[1] ** 2 / 2 / times[2]
    assert len(introductions) == 28
    assert len(introductions) * clauses > 10**6
    assert not any("," in part for part in introductions | drawn.keys())


@pytest.mark.parametrize(
    ("seed", "held_out", "expected"),
    [(0, False, "4aa6024b61b275a6"), (1, True, "dad22b7b36395a1e")],
)
def test_a_seed_gives_the_same_pairs_everywhere(seed, held_out, expected):
    made = sentence_pairs(500, seed=seed, held_out=held_out)
    assert len({pair.german for pair in made}) == 500
    lines = [f"{p.german}|{p.english}|{sorted(p.alignment)}|{p.construction}" for p in made]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] == expected


test_what_cannot_be_drawn_is_refused = refusals(
    (lambda: sentence_pairs(0), "count: expected a whole number of at least 1, got 0"),
    (lambda: sentence_pairs(1, seed=2.5), "seed: expected a whole number"),
)


# --- Training and held-out --------------------------------------------------------------------


def test_held_out_sentences_are_new_in_their_combinations_and_not_in_their_words():
    learnt, new = drawn(20_000, seed=0), drawn(100, seed=1, held_out=True)
    combined = set().union(*(some for _, some in learnt))
    assert not any(is_held_out(*combination) for combination in combined)
    assert all(some - combined for _, some in new)
    for side in ("german", "english"):
        known = {word for pair, _ in learnt for word in getattr(pair, side).split()}
        assert all(known.issuperset(getattr(pair, side).split()) for pair, _ in new)
