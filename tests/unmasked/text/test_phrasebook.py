"""The phrasebook writes German and English as checked by hand, and keeps its promises."""

import hashlib
import re
from collections import Counter
from functools import cache

import pytest

from unmasked.text.phrasebook import (
    as_pair,
    combinations,
    german,
    is_held_out,
    of_clause,
    sentence_pairs,
)
from unmasked.text.phrasebook.lexicon import PRONOUNS, SAYING
from unmasked.text.phrasebook.sentences import CONSTRUCTIONS, Dice, action

# --- Sentences, checked by hand ---------------------------------------------------------------

# `nicht=does/not` is a German word with the English ones that it is aligned with.
GOLDEN = [
    # --- a statement: tense, time, and what stands where
    ("yesterday an old teacher did not throw away the small biscuit",
     "gestern=yesterday hat=did ein=an alter=old lehrer=teacher den=the kleinen=small "
     "keks=biscuit nicht=not weggeworfen=throw/away"),
    ("tomorrow we will visit him", "morgen=tomorrow/will besuchen=visit wir=we ihn=him"),
    ("his old teacher loves the teacher",
     "den=the lehrer=teacher liebt=loves sein=his alter=old lehrer=teacher"),
    # --- separable verbs: pick him up, not pick up him
    ("in the evening you pick him up",
     "abends=in/the/evening holst=pick/up du=you ihn=him ab=pick/up"),
    # --- modals, not and kein
    ("i do not have to come back", "ich=i muss=have/to nicht=do/not zurückkommen=come/back"),
    ("she has not visited any children",
     "sie=she hat=has keine=not/any kinder=children besucht=visited"),
    ("the child must not close a window",
     "das=the kind=child darf=must kein=not/a fenster=window zumachen=close"),
    # --- where and how somebody is
    ("your beautiful car is under the old table",
     "dein=your schönes=beautiful auto=car liegt=is unter=under dem=the alten=old tisch=table"),
    # --- questions
    ("is the teacher in the old house ?",
     "ist=is der=the lehrer=teacher im=in/the alten=old haus=house ?=?"),
    ("who throws away the good pizza ?",
     "wer=who wirft=throws/away die=the gute=good pizza=pizza weg=throws/away ?=?"),
    ("what does the teacher open ?",
     "was=what macht=does/open der=the lehrer=teacher auf=does/open ?=?"),
    ("when did his sister fall asleep ?",
     "wann=when ist=did seine=his schwester=sister eingeschlafen=fall/asleep ?=?"),
    # --- dass and weil: all verbs at the end, the particle with its verb
    ("they believe that you do not want to look at us",
     "sie=they glauben=believe ,= dass=that du=you uns=us nicht=do/not ansehen=look/at "
     "möchtest=want/to"),
    ("we sold a hat yesterday because we are tired",
     "wir=we haben=sold gestern=yesterday einen=a hut=hat verkauft=sold ,= weil=because "
     "wir=we müde=tired sind=are"),
]  # fmt: skip


@pytest.mark.parametrize(("in_english", "in_german"), GOLDEN)
def test_a_sentence_its_translation_and_its_alignment(in_english, in_german):
    [pair] = {pair for pair in pairs() if pair.german == re.sub(r"=\S*", "", in_german)}
    assert pair.english == in_english
    partners = in_english.split()
    assert in_german == " ".join(
        f"{word}={'/'.join(partners[j] for k, j in sorted(pair.alignment) if k == i)}"
        for i, word in enumerate(pair.german.split())
    )


# --- What is drawn ----------------------------------------------------------------------------


@cache
def sentences():
    """Draws sentences, of which some are the same."""
    dice = Dice(5)
    return [dice.choice(CONSTRUCTIONS)(dice) for _ in range(4000)]


@cache
def pairs():
    return [as_pair(sentence) for sentence in sentences()]


def test_each_construction_is_drawn_and_a_sentence_has_one_translation_and_one_alignment():
    """The alignment has all words but the comma."""
    found, counts = {}, Counter()
    for pair in pairs():
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
    """`that` draws speaker, verb and clause independently: 28 introductions times its clauses.

    There are at least as many clauses as were drawn, plus once² / (2 · twice) (Chao, 1984).
    """
    dice, drawn = Dice(0), Counter()
    while drawn.total() < 5000:
        said = action(dice)
        if not any(is_held_out(*combination) for combination in of_clause(said)):
            drawn[" ".join(token.word for token in german.subordinate(said))] += 1
    times = Counter(drawn.values())
    clauses = len(drawn) + times[1] ** 2 / 2 / times[2]
    assert len(PRONOUNS) * len(SAYING) * clauses > 10**6


@pytest.mark.parametrize(
    ("seed", "held_out", "expected"),
    [(0, False, "4aa6024b61b275a6"), (1, True, "dad22b7b36395a1e")],
)
def test_a_seed_gives_the_same_pairs_everywhere(seed, held_out, expected):
    made = sentence_pairs(500, seed=seed, held_out=held_out)
    assert len({pair.german for pair in made}) == 500
    lines = [f"{p.german}|{p.english}|{sorted(p.alignment)}|{p.construction}" for p in made]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] == expected


# --- Training and held-out --------------------------------------------------------------------


def test_held_out_sentences_are_new_in_their_combinations_and_not_in_their_words():
    drawn = {p.german: combinations(said) for p, said in zip(pairs(), sentences(), strict=True)}
    learnt, new = sentence_pairs(2500, seed=5), sentence_pairs(100, seed=5, held_out=True)
    combined = set().union(*(drawn[pair.german] for pair in learnt))
    assert not any(is_held_out(*combination) for combination in combined)
    assert all(drawn[pair.german] - combined for pair in new)
    many = sentence_pairs(20_000)
    for side in ("german", "english"):
        known = {word for pair in many for word in getattr(pair, side).split()}
        assert all(known.issuperset(getattr(pair, side).split()) for pair in new)
