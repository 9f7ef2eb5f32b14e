"""The phrasebook against German and English written by hand, and what its pairs promise."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from unmasked.text import phrasebook
from unmasked.text.phrasebook import (
    as_pair,
    combinations,
    english,
    german,
    is_held_out,
    of_clause,
    sentence_pairs,
)
from unmasked.text.phrasebook import german as forms
from unmasked.text.phrasebook.clause import Clause, Nominal, Place
from unmasked.text.phrasebook.lexicon import (
    ADJECTIVES,
    BE,
    FREQUENCIES,
    HABITS,
    HAVE,
    LIE,
    MODALS,
    MOODS,
    NOUNS,
    PREPOSITIONS,
    PRONOUNS,
    SAYING,
    TODAY,
    TOMORROW,
    VERBS,
    WANT,
    WHAT,
    WHEN,
    WHERE,
    WHO,
    YESTERDAY,
    Pronoun,
)
from unmasked.text.phrasebook.sentences import (
    CONSTRUCTIONS,
    Dice,
    action,
    joined,
    plain,
    pronoun_for,
)

# --- Clauses written by hand ------------------------------------------------------------------

ICH, DU, ER, SIE, WIR, IHR, SIE_ALLE = PRONOUNS
NOUN = {noun.german: noun for noun in NOUNS}
ADJECTIVE = {adjective.german: adjective for adjective in [*ADJECTIVES, *MOODS]}
VERB = {verb.particle + verb.infinitive: verb for verb in [*VERBS, *SAYING, WANT, LIE, BE, HAVE]}
MODAL = {verb.infinitive: verb for verb in MODALS}
TIMES = [YESTERDAY, TODAY, TOMORROW, *HABITS, *FREQUENCIES, WHEN]
TIME = {adverb.german: adverb for adverb in TIMES}


def nominal(words, role):
    """A pronoun, or `ein alt hund`; + stands for many, - for no article."""
    if isinstance(words, Pronoun):
        return Nominal(words, role)
    determiner, *adjective, noun = words.rstrip("+").split()
    determiner = {"die": "der", "das": "der", "-": ""}.get(determiner, determiner)
    described = ADJECTIVE[adjective[0]] if adjective else None
    return Nominal(NOUN[noun], role, words.endswith("+"), determiner, described)


def say(who, verb, what=None, *, modal=None, time=None, how=None, **rest):
    return Clause(
        nominal(who, "subject"),
        VERB[verb],
        nominal(what, "object") if what else None,
        modal=MODAL[modal] if modal else None,
        time=TIME[time] if time else None,
        complement=ADJECTIVE.get(how, how),
        **rest,
    )


def ask(*words, **rest):
    return say(*words, question=True, **rest)


def at(preposition, words):
    [found] = [p for p in PREPOSITIONS if p.german == preposition]
    return Place(found, nominal(words, "place"))


def both(first, joint, second):
    in_english = {"dass": "that", "weil": "because"}[joint]
    return joined("joined", first, joint, in_english, second)


def written(said):
    return as_pair(plain("plain", said) if isinstance(said, Clause) else said)


GLAUBT, MÜDE = say(SIE, "glauben"), say(ER, "sein", how="müde")
CASES = [
    # --- a statement: tense, time, and what stands where
    (say(ICH, "trinken", "ein kaffee"), "ich trinke einen kaffee", "i drink a coffee"),
    (say(SIE, "suchen", ER), "sie sucht ihn", "she looks for him"),
    (say(SIE_ALLE, "suchen", ICH), "sie suchen mich", "they look for me"),
    (say(DU, "lesen", "- buch+", time="oft"), "du liest oft bücher", "you often read books"),
    (say(ER, "sehen", WIR, time="immer"), "er sieht uns immer", "he always sees us"),
    (say("das kind", "essen", "ein ei", time="morgens"),
     "das kind isst morgens ein ei", "the child eats an egg in the morning"),
    (say("die ärztin+", "kaufen", "das rot auto", time="morgen"),
     "die ärztinnen kaufen morgen das rote auto", "the doctors will buy the red car tomorrow"),
    (say(ICH, "sehen", "der hund", time="gestern", perfect=True),
     "ich habe gestern den hund gesehen", "i saw the dog yesterday"),
    (say(SIE, "sehen", "der hund", time="heute", perfect=True),
     "sie hat heute den hund gesehen", "she has seen the dog today"),
    (say("der alt mann", "schreiben", "ein brief", perfect=True),
     "der alte mann hat einen brief geschrieben", "the old man has written a letter"),
    (say(WIR, "kommen", perfect=True), "wir sind gekommen", "we have come"),
    (say("mein kind", "möchten", "der tee"), "mein kind möchte den tee", "my child wants the tea"),
    # --- separable verbs: the particle at the end
    (say(ICH, "aufstehen"), "ich stehe auf", "i get up"),
    (say(ER, "aufstehen", perfect=True), "er ist aufgestanden", "he has got up"),
    (say(IHR, "einschlafen", time="oft"), "ihr schlaft oft ein", "you often fall asleep"),
    (say("die frau", "ausschalten", "das radio", time="abends"),
     "die frau schaltet abends das radio aus", "the woman turns off the radio in the evening"),
    (say("die frau", "ausschalten", "das radio", modal="können"),
     "die frau kann das radio ausschalten", "the woman can turn off the radio"),
    (say(DU, "wegwerfen", "ein hut", perfect=True),
     "du hast einen hut weggeworfen", "you have thrown away a hat"),
    # --- pick up the child, but pick her up
    (say(ER, "abholen", "das kind"), "er holt das kind ab", "he picks up the child"),
    (say(ER, "abholen", DU, time="abends"),
     "er holt dich abends ab", "he picks you up in the evening"),
    (say(ER, "abholen", IHR, time="gestern", perfect=True),
     "er hat euch gestern abgeholt", "he picked you up yesterday"),
    (say(ER, "abholen", WIR, modal="müssen", negated=True),
     "er muss uns nicht abholen", "he does not have to pick us up"),
    (ask(WIR, "abholen", ER), "holen wir ihn ab ?", "do we pick him up ?"),
    # --- modals
    (say("der freund", "kommen", modal="müssen", time="heute"),
     "der freund muss heute kommen", "the friend must come today"),
    (say(SIE, "tanzen", modal="möchten"), "sie möchte tanzen", "she wants to dance"),
    (say(DU, "tanzen", modal="dürfen"), "du darfst tanzen", "you may dance"),
    (say(IHR, "tanzen", modal="sollen"), "ihr sollt tanzen", "you should dance"),
    (say(ICH, "tanzen", modal="können", time="morgen"),
     "ich kann morgen tanzen", "i can dance tomorrow"),
    # --- not, kein, and what becomes of modals
    (say(ER, "arbeiten", negated=True), "er arbeitet nicht", "he does not work"),
    (say(ICH, "arbeiten", negated=True), "ich arbeite nicht", "i do not work"),
    (say(ER, "anrufen", ICH, negated=True), "er ruft mich nicht an", "he does not call me"),
    (say(SIE, "lieben", "mein hund", negated=True),
     "sie liebt meinen hund nicht", "she does not love my dog"),
    (say(WIR, "kaufen", "kein apfel", negated=True),
     "wir kaufen keinen apfel", "we do not buy an apple"),
    (say(WIR, "kaufen", "kein rot apfel+", negated=True),
     "wir kaufen keine roten äpfel", "we do not buy any red apples"),
    (say(WIR, "trinken", "kein kalt kaffee", negated=True),
     "wir trinken keinen kalten kaffee", "we do not drink any cold coffee"),
    (say(ER, "kaufen", "kein hut", time="gestern", perfect=True, negated=True),
     "er hat gestern keinen hut gekauft", "he did not buy a hat yesterday"),
    (say(ER, "finden", "der hut", perfect=True, negated=True),
     "er hat den hut nicht gefunden", "he has not found the hat"),
    (say(ER, "schlafen", modal="müssen", negated=True),
     "er muss nicht schlafen", "he does not have to sleep"),
    (say(ER, "schlafen", modal="dürfen", negated=True),
     "er darf nicht schlafen", "he must not sleep"),
    (say(ER, "schlafen", modal="sollen", negated=True),
     "er soll nicht schlafen", "he should not sleep"),
    (say(ER, "schlafen", modal="können", negated=True),
     "er kann nicht schlafen", "he cannot sleep"),
    (say(ER, "schlafen", modal="möchten", negated=True),
     "er möchte nicht schlafen", "he does not want to sleep"),
    (say(ER, "essen", "kein ei+", modal="können", negated=True),
     "er kann keine eier essen", "he cannot eat any eggs"),
    # --- the time first
    (say("der hund", "kommen", time="morgen", first="time"),
     "morgen kommt der hund", "tomorrow the dog will come"),
    (say(ICH, "zumachen", "die tür", time="abends", first="time"),
     "abends mache ich die tür zu", "in the evening i close the door"),
    (say(DU, "essen", "mein keks", time="gestern", first="time", perfect=True),
     "gestern hast du meinen keks gegessen", "yesterday you ate my biscuit"),
    (say(SIE, "besuchen", WIR, time="morgen", first="time", negated=True),
     "morgen besucht sie uns nicht", "tomorrow she will not visit us"),
    (say(SIE, "warten", time="heute", first="time", modal="dürfen", negated=True),
     "heute darf sie nicht warten", "today she must not wait"),
    # --- the object first
    (say("die frau", "anziehen", "der hut", first="object"),
     "den hut zieht die frau an", "the woman puts on the hat"),
    (say(SIE_ALLE, "lesen", "dein neu brief", first="object", time="manchmal"),
     "deinen neuen brief lesen sie manchmal", "they sometimes read your new letter"),
    # --- where and how somebody is
    (MÜDE, "er ist müde", "he is tired"),
    (say(ICH, "sein", how="krank", negated=True), "ich bin nicht krank", "i am not ill"),
    (say("der tee", "sein", how="kalt"), "der tee ist kalt", "the tea is cold"),
    (say("- hund+", "sein", how=at("in", "der garten")),
     "hunde sind im garten", "dogs are in the garden"),
    (say("das buch", "liegen", how=at("in", "der klein garten")),
     "das buch liegt im kleinen garten", "the book is in the small garden"),
    (say("die pizza", "liegen", how=at("in", "die küche")),
     "die pizza liegt in der küche", "the pizza is in the kitchen"),
    (say("sein brief+", "liegen", how=at("auf", "der tisch"), negated=True),
     "seine briefe liegen nicht auf dem tisch", "his letters are not on the table"),
    (say("ein katze", "sein", how=at("unter", "das alt bett")),
     "eine katze ist unter dem alten bett", "a cat is under the old bed"),
    # --- questions
    (ask(DU, "sein", how="glücklich"), "bist du glücklich ?", "are you happy ?"),
    (ask("der lehrer", "mitbringen", "ein buch"),
     "bringt der lehrer ein buch mit ?", "does the teacher bring a book ?"),
    (ask(IHR, "finden", "die uhr", perfect=True, time="gestern"),
     "habt ihr gestern die uhr gefunden ?", "did you find the clock yesterday ?"),
    (ask(IHR, "finden", "die uhr", perfect=True),
     "habt ihr die uhr gefunden ?", "have you found the clock ?"),
    (ask(ER, "kommen", time="morgen"), "kommt er morgen ?", "will he come tomorrow ?"),
    (ask(ER, "kommen", modal="möchten"), "möchte er kommen ?", "does he want to come ?"),
    (ask(ER, "kommen", time="oft"), "kommt er oft ?", "does he often come ?"),
    (ask(WHO, "aufmachen", "das fenster", time="immer"),
     "wer macht immer das fenster auf ?", "who always opens the window ?"),
    (ask(WHO, "anrufen", WIR, modal="können"), "wer kann uns anrufen ?", "who can call us ?"),
    (ask("die schwester", "anrufen", WHO, first="object"),
     "wen ruft die schwester an ?", "who does the sister call ?"),
    (ask(DU, "abholen", WHAT, first="object", time="morgen"),
     "was holst du morgen ab ?", "what will you pick up tomorrow ?"),
    (ask(ER, "möchten", WHAT, first="object"), "was möchte er ?", "what does he want ?"),
    (ask("das pferd", "einschlafen", time="wann", first="time", perfect=True),
     "wann ist das pferd eingeschlafen ?", "when did the horse fall asleep ?"),
    (ask(ICH, "lesen", "ein zeitung", time="wann", first="time"),
     "wann lese ich eine zeitung ?", "when do i read a newspaper ?"),
    (ask("dein freund+", "arbeiten", how=WHERE, first="complement"),
     "wo arbeiten deine freunde ?", "where do your friends work ?"),
    (ask("das alt haus", "sein", how=WHERE, first="complement"),
     "wo ist das alte haus ?", "where is the old house ?"),
    # --- dass and weil: all verbs at the end, the particle with its verb
    (both(GLAUBT, "dass", say(DU, "ausschalten", "die lampe")),
     "sie glaubt , dass du die lampe ausschaltest", "she believes that you turn off the lamp"),
    (both(GLAUBT, "dass", say(DU, "ausschalten", "die lampe", perfect=True, time="gestern")),
     "sie glaubt , dass du gestern die lampe ausgeschaltet hast",
     "she believes that you turned off the lamp yesterday"),
    (both(say(WIR, "wissen"), "dass", say(ER, "ansehen", ICH, modal="dürfen", negated=True)),
     "wir wissen , dass er mich nicht ansehen darf", "we know that he must not look at me"),
    (both(say(ER, "sagen"), "dass", say("die katze", "sein", how="müde", negated=True)),
     "er sagt , dass die katze nicht müde ist", "he says that the cat is not tired"),
    (both(say(DU, "denken"), "dass", say("ein ball", "liegen", how=at("in", "das haus"))),
     "du denkst , dass ein ball im haus liegt", "you think that a ball is in the house"),
    (both(say(ICH, "schlafen", time="heute", modal="möchten"), "weil", MÜDE),
     "ich möchte heute schlafen , weil er müde ist", "i want to sleep today because he is tired"),
    (both(MÜDE, "weil", say("sein kind", "zurückkommen", negated=True)),
     "er ist müde , weil sein kind nicht zurückkommt",
     "he is tired because his child does not come back"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "in_german", "in_english"), CASES, ids=[c[1] for c in CASES])
def test_a_sentence_and_its_translation(said, in_german, in_english):
    assert written(said)[:2] == (in_german, in_english)


# --- Alignments written by hand ---------------------------------------------------------------

ALIGNMENTS = [
    (say(ICH, "kaufen", "ein hut", perfect=True), "ich=i habe=have einen=a hut=hat gekauft=bought"),
    (say("die frau", "abholen", ER, time="abends"),
     "die=the frau=woman holt=picks/up ihn=him abends=in/the/evening ab=picks/up"),
    (say(ICH, "finden", "der ball", perfect=True, time="gestern"),
     "ich=i habe=found gestern=yesterday den=the ball=ball gefunden=found"),
    (say(ICH, "finden", "der ball", perfect=True, time="gestern", negated=True),
     "ich=i habe=did gestern=yesterday den=the ball=ball nicht=not gefunden=find"),
    (say(ER, "warten", time="morgen", first="time"), "morgen=tomorrow/will wartet=wait er=he"),
    (say(ER, "warten", negated=True), "er=he wartet=wait nicht=does/not"),
    (say(ER, "kaufen", "kein ei+", negated=True), "er=he kauft=buy keine=does/not/any eier=eggs"),
    (say(ER, "kaufen", "kein alt auto", negated=True, modal="dürfen"),
     "er=he darf=must kein=not/an altes=old auto=car kaufen=buy"),
    (say(ER, "warten", modal="müssen", negated=True),
     "er=he muss=have/to nicht=does/not warten=wait"),
    (say(ER, "warten", modal="können", negated=True), "er=he kann=cannot nicht=cannot warten=wait"),
    (say(ER, "warten", modal="möchten"), "er=he möchte=wants/to warten=wait"),
    (say("das neu hemd", "liegen", how=at("in", "der garten")),
     "das=the neue=new hemd=shirt liegt=is im=in/the garten=garden"),
    (say("der alt hund", "sehen", "der alt mann"),
     "der=the alte=old hund=dog sieht=sees den=the alten=old mann=man"),
    (ask(DU, "suchen", "der tee"), "suchst=do/look/for du=you den=the tee=tea ?=?"),
    (ask(DU, "kommen", modal="möchten"), "möchtest=do/want/to du=you kommen=come ?=?"),
    (ask(DU, "aufmachen", WHAT, first="object"), "was=what machst=do/open du=you auf=do/open ?=?"),
    (ask(DU, "kommen", time="wann", first="time", perfect=True),
     "wann=when bist=did du=you gekommen=come ?=?"),
    (ask(DU, "sein", how=WHERE, first="complement"), "wo=where bist=are du=you ?=?"),
    (both(GLAUBT, "dass", say(SIE, "anziehen", "ein hut")),
     "sie=she glaubt=believes ,= dass=that sie=she einen=a hut=hat anzieht=puts/on"),
    (both(say("die frau", "tanzen", negated=True), "weil", say("die frau", "sein", how="müde")),
     "die=the frau=woman tanzt=dance nicht=does/not ,= weil=because "
     "die=the frau=woman müde=tired ist=is"),
]  # fmt: skip


def aligned(pair):
    """`nicht=does/not`: each German word with its English ones, in the order of the sentence."""
    english_words = pair.english.split()
    return " ".join(
        f"{word}={'/'.join(english_words[j] for k, j in sorted(pair.alignment) if k == i)}"
        for i, word in enumerate(pair.german.split())
    )


@pytest.mark.parametrize(("said", "expected"), ALIGNMENTS, ids=[c[1] for c in ALIGNMENTS])
def test_an_alignment(said, expected):
    assert aligned(written(said)) == expected


def test_the_two_clauses_of_a_sentence_are_told_apart():
    pair = written(both(GLAUBT, "dass", say(SIE, "glauben")))
    assert pair.german == "sie glaubt , dass sie glaubt"
    assert pair.alignment == {(0, 0), (1, 1), (3, 2), (4, 3), (5, 4)}


# --- Endings ----------------------------------------------------------------------------------

# Rows: nominative, accusative, dative; columns: masculine, feminine, neuter, plural.
PARADIGMS = {
    "der": """
        der alte    die alte    das alte    die alten
        den alten   die alte    das alte    die alten
        dem alten   der alten   dem alten   den alten
    """,
    "ein": """
        ein alter     eine alte     ein altes     -
        einen alten   eine alte     ein altes     -
        einem alten   einer alten   einem alten   -
    """,
    "kein": """
        kein alter     keine alte     kein altes     keine alten
        keinen alten   keine alte     kein altes     keine alten
        keinem alten   keiner alten   keinem alten   keinen alten
    """,
    "mein": """
        mein alter     meine alte     mein altes     meine alten
        meinen alten   meine alte     mein altes     meine alten
        meinem alten   meiner alten   meinem alten   meinen alten
    """,
    "dein": """
        dein alter     deine alte     dein altes     deine alten
        deinen alten   deine alte     dein altes     deine alten
        deinem alten   deiner alten   deinem alten   deinen alten
    """,
    "sein": """
        sein alter     seine alte     sein altes     seine alten
        seinen alten   seine alte     sein altes     seine alten
        seinem alten   seiner alten   seinem alten   seinen alten
    """,
    "": """
        -  -  -  alte
        -  -  -  alte
        -  -  -  alten
    """,
}


@pytest.mark.parametrize("article", PARADIGMS)
def test_articles_and_adjectives_have_their_endings(article):
    columns = [("mann", False), ("frau", False), ("kind", False), ("kind", True)]
    for case, row in enumerate(PARADIGMS[article].strip().splitlines()):
        for (noun, plural), words in zip(columns, re.split(r"\s{2,}", row.strip()), strict=True):
            if words != "-":
                said = (article, NOUN[noun], plural, case)
                made = f"{forms.determiner(*said)} {forms.adjective('alt', *said)}"
                assert made.strip() == words


# What ich, du, er, wir, ihr and sie say.
CONJUGATIONS = """
    sein        bin         bist        ist         sind        seid        sind
    haben       habe        hast        hat         haben       habt        haben
    wissen      weiß        weißt       weiß        wissen      wisst       wissen
    können      kann        kannst      kann        können      könnt       können
    müssen      muss        musst       muss        müssen      müsst       müssen
    dürfen      darf        darfst      darf        dürfen      dürft       dürfen
    sollen      soll        sollst      soll        sollen      sollt       sollen
    möchten     möchte      möchtest    möchte      möchten     möchtet     möchten
    trinken     trinke      trinkst     trinkt      trinken     trinkt      trinken
    essen       esse        isst        isst        essen       esst        essen
    lesen       lese        liest       liest       lesen       lest        lesen
    sehen       sehe        siehst      sieht       sehen       seht        sehen
    ansehen     sehe        siehst      sieht       sehen       seht        sehen
    wegwerfen   werfe       wirfst      wirft       werfen      werft       werfen
    schlafen    schlafe     schläfst    schläft     schlafen    schlaft     schlafen
    finden      finde       findest     findet      finden      findet      finden
    arbeiten    arbeite     arbeitest   arbeitet    arbeiten    arbeitet    arbeiten
    warten      warte       wartest     wartet      warten      wartet      warten
    einschalten schalte     schaltest   schaltet    schalten    schaltet    schalten
    tanzen      tanze       tanzt       tanzt       tanzen      tanzt       tanzen
    anziehen    ziehe       ziehst      zieht       ziehen      zieht       ziehen
    liegen      liege       liegst      liegt       liegen      liegt       liegen
"""


@pytest.mark.parametrize("row", CONJUGATIONS.strip().splitlines(), ids=lambda row: row.split()[0])
def test_german_verbs_are_conjugated(row):
    infinitive, *expected = row.split()
    verb = (VERB | MODAL)[infinitive]
    persons = [(person, plural) for plural in (False, True) for person in (1, 2, 3)]
    assert [forms.conjugate(verb, *who) for who in persons] == expected


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ("buy", "buys"), ("see", "sees"), ("close", "closes"), ("do", "does"), ("have", "has"),
        ("look for", "looks for"), ("fall asleep", "falls asleep"), ("want to", "wants to"),
        ("pass", "passes"), ("wash", "washes"), ("catch", "catches"), ("fix", "fixes"),
        ("be", "is"),
    ],
)  # fmt: skip
def test_he_adds_an_s(verb, expected):
    assert english.present(verb, 3, False) == expected


def test_others_add_none():
    others = [(1, False), (2, False), (1, True), (2, True), (3, True)]
    assert [english.present("be", *who) for who in others] == ["am", "are", "are", "are", "are"]
    assert {english.present("put on", *who) for who in others} == {"put on"}


def test_an_before_a_vowel():
    words = ["apple", "old", "egg", "ill", "umbrella", "cat", "hat", "young"]
    assert [english.indefinite(word) for word in words] == ["an"] * 5 + ["a"] * 3


# --- What is drawn ----------------------------------------------------------------------------


@cache
def drawn(count, **options):
    """Pairs, each with the combinations that its sentence has."""
    found = {}

    def note(sentence):
        pair = as_pair(sentence)
        found.setdefault(pair.german, combinations(sentence))
        return pair

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phrasebook, "as_pair", note)
        return [(pair, found[pair.german]) for pair in phrasebook.sentence_pairs(count, **options)]


def training():
    return drawn(40_000, seed=0)


def held_out():
    return drawn(2000, seed=1, held_out=True)


@cache
def sentences():
    """Sentences as they are drawn: the same one may come again."""
    dice = Dice(5)
    return [dice.choice(CONSTRUCTIONS)(dice) for _ in range(30_000)]


FIRST_TIME = (
    "(gestern|heute|morgen|morgens|abends)",
    "(yesterday|today|tomorrow|in the (mor|eve)ning)",
)
HELPERS = "(do|does|did|have|has|will|can|must|may|should|am|is|are)"
LOOKS = {
    "statement": ("[^?,]+", "[^?]+"),
    "time first": tuple(f"{words} [^?,]+" for words in FIRST_TIME),
    "object first": ("(den|einen|meinen|deinen|seinen) [^?,]+", "[^?]+"),
    "description": (
        "[^?,]+ (bin|bist|ist|seid|sind|liegt|liegen) [^?,]+",
        "[^?]+ (am|is|are) [^?]+",
    ),
    "yes or no": ("[^,]+ [?]", f"{HELPERS} [^,]+ [?]"),
    "who or what": ("(wer|wen|was) [^,]+ [?]", "(who|what) [^,]+ [?]"),
    "when": ("wann [^,]+ [?]", f"when {HELPERS} [^,]+ [?]"),
    "where": ("wo [^,]+ [?]", "where (do(es)? .+ (sleep|work|wait|dance)|(is|are) .+) [?]"),
    "that": ("[^,]+ , dass [^,?]+", "[^,]+ that [^,?]+"),
    "because": ("[^,]+ , weil [^,?]+", "[^,]+ because [^,?]+"),
}


def test_what_each_construction_looks_like():
    for pair, _ in training():
        in_german, in_english = LOOKS[pair.construction]
        assert re.fullmatch(in_german, pair.german)
        assert re.fullmatch(in_english, pair.english)
    found = Counter(pair.construction for pair, _ in training())
    assert found.keys() == LOOKS.keys()
    assert min(found.values()) > 500


ANIMALS_DO = ["sehen", "suchen", "finden", "lieben", "schlafen", "warten", "kommen"]


def test_what_is_drawn_makes_sense():
    dice = Dice(3)
    for _ in range(10_000):
        said = action(dice)
        who, what, verb = said.subject, said.object, said.verb
        assert (what is not None) == bool(verb.kinds)
        if what and what.is_pronoun:  # nobody sees himself
            assert "person" in verb.kinds
            assert what.head.german_object != "-"
            assert (who.agreement[0], what.agreement[0]) not in {(1, 1), (2, 2)}
        elif what:
            assert what.head.kind in verb.kinds
            assert (what.determiner == "kein") <= said.negated
        for noun in filter(None, (who, what)):
            assert (
                noun.is_pronoun
                or noun.head.english not in ("man", "woman")
                or (noun.determiner not in ("mein", "dein", "sein"))
            )
        if not who.is_pronoun and who.head.kind != "person":
            assert verb.infinitive in ANIMALS_DO
        if verb.infinitive in ("möchten", "brauchen", "lieben"):
            assert (said.modal, said.perfect, said.time) == (None, False, None)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("der mann", ER), ("die ärztin", SIE), ("die frau+", SIE_ALLE), ("- kind+", SIE_ALLE),
        (DU, DU), ("das kind", None), ("der hund", None), ("die katze", None),
    ],
)  # fmt: skip
def test_the_pronoun_for_a_noun(words, expected):
    found = pronoun_for(nominal(words, "subject"))
    assert (found and found.head) == expected


def test_a_sentence_has_one_translation_and_one_alignment():
    found = {}
    for sentence in sentences():
        pair = as_pair(sentence)
        assert found.setdefault(pair.german, pair)[1:3] == pair[1:3]
    assert len(found) < 28_000  # so many came again


def test_all_words_are_aligned_but_the_comma():
    for pair, _ in training()[:10_000]:
        words = pair.german.split(), pair.english.split()
        assert {i for i, _ in pair.alignment} == {i for i, w in enumerate(words[0]) if w != ","}
        assert {j for _, j in pair.alignment} == set(range(len(words[1])))


def test_there_are_more_than_a_million_training_pairs():
    # `that` draws who speaks, how, and what is said, each on its own. So every introduction goes
    # with every clause, and two sentences are different if one of these two parts is. There are
    # 7 · 4 = 28 introductions, and they have no combination that could be held out: 36,000
    # different clauses without one make 28 · 36,000 = 1,008,000 different training sentences.
    speakers = [Clause(nominal(who, "subject"), verb) for who in PRONOUNS for verb in SAYING]
    introductions = {text(german.clause(said)) for said in speakers}
    dice, clauses = Dice(0), set()
    for _ in range(60_000):
        said = action(dice)
        if not any(is_held_out(*words) for words in of_clause(said)):
            clauses.add(text(german.subordinate(said)))
    assert len(introductions) == 28
    assert len(introductions) * len(clauses) > 10**6
    assert not any("," in part for part in introductions | clauses)


def text(tokens):
    return " ".join(token.word for token in tokens)


# --- The same for the same seed ---------------------------------------------------------------

DIGESTS = {
    (0, False): "72fffc5848912065",
    (1, True): "150e8ce8a36045dc",
}


def digest(seed, held_out):
    made = phrasebook.sentence_pairs(2000, seed=seed, held_out=held_out)
    lines = [f"{p.german}|{p.english}|{sorted(p.alignment)}|{p.construction}" for p in made]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@pytest.mark.parametrize(("seed", "held_out"), DIGESTS)
def test_a_seed_gives_the_same_pairs_everywhere(seed, held_out):
    assert digest(seed, held_out) == DIGESTS[seed, held_out]


def test_they_do_not_depend_on_the_hashes_of_strings():
    code = "from test_phrasebook import digest; print(digest(0, False), digest(1, True))"
    options = {"cwd": os.path.dirname(__file__), "capture_output": True, "text": True}
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, **options)
    assert done.stdout.split() == list(DIGESTS.values())


def test_another_seed_gives_other_pairs_and_all_are_different():
    first, second = ({pair.german for pair in sentence_pairs(500, seed=seed)} for seed in (0, 1))
    assert len(first) == len(second) == 500
    assert len(first & second) < 100


def test_at_least_one_pair_is_asked_for():
    with pytest.raises(ValueError, match="count: expected a whole number of at least 1, got 0"):
        sentence_pairs(0)


# --- Training and held-out --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (say(ICH, "sehen", "der hund"), {("sehen", "hund")}),
        (
            say("der alt mann", "ansehen", "ein rot hut"),
            {("ansehen", "hut"), ("alt", "mann"), ("rot", "hut")},
        ),
        (say("der jung hund", "sehen", DU), {("jung", "hund")}),
        (ask(DU, "sehen", WHAT, first="object"), set()),
        (say("die tür", "sein", how="rot"), {("rot", "tür")}),
        (say(ER, "sein", how="müde"), set()),
        (
            say("ein ei", "liegen", how=at("in", "der alt garten")),
            {("alt", "garten")},
        ),
        (ask("der hut", "sein", how=WHERE, first="complement"), set()),
        (
            both(say(ICH, "trinken", "der tee"), "weil", say("die katze", "sein", how="müde")),
            {("trinken", "tee"), ("müde", "katze")},
        ),
    ],
)
def test_the_combinations_of_a_sentence(said, expected):
    assert combinations(plain("plain", said) if isinstance(said, Clause) else said) == expected


def test_about_one_combination_in_eight_is_held_out():
    everything = set().union(*(combinations(sentence) for sentence in sentences()))
    share = sum(is_held_out(*words) for words in everything) / len(everything)
    assert len(everything) > 500
    assert 0.1 < share < 0.15
    assert is_held_out("anziehen", "hut")
    assert not is_held_out("ausziehen", "hut")


def test_each_held_out_sentence_has_a_combination_that_no_training_sentence_has():
    learnt = set().union(*(words for _, words in training()))
    assert not any(is_held_out(*words) for words in learnt)
    for _, words in held_out():
        assert words - learnt
    known, new = ({pair.german for pair, _ in some} for some in (training(), held_out()))
    assert not known & new


def test_the_held_out_combinations_do_not_stand_in_the_training_texts():
    # An adjective next to its noun, read from the text alone.
    stems = "|".join(ADJECTIVE)
    nouns = {form: noun.german for noun in NOUNS for form in (noun.german, noun.german_plural)}
    pattern = re.compile(rf"\b({stems})(?:e|en|er|es) (?=({'|'.join(nouns)})\b)")
    found = {(m[1], nouns[m[2]]) for pair, _ in training() for m in pattern.finditer(pair.german)}
    assert len(found) > 150
    assert not any(is_held_out(*words) for words in found)


def test_all_words_of_the_held_out_sentences_are_learnt_and_none_is_rare():
    for side in ("german", "english"):
        counts = Counter(w for pair, _ in training() for w in getattr(pair, side).split())
        assert min(counts.values()) >= 5
        for pair, _ in held_out():
            assert counts.keys() >= set(getattr(pair, side).split())


def test_few_held_out_sentences_are_one_word_away_from_a_training_sentence():
    def gaps(sentence):
        words = sentence.split()
        return {(*words[:i], "…", *words[i + 1 :]) for i in range(len(words))}

    known = set().union(*(gaps(pair.german) for pair, _ in training()))
    near = sum(not known.isdisjoint(gaps(pair.german)) for pair, _ in held_out())
    assert near / len(held_out()) < 0.15


@pytest.mark.parametrize("seed", [-1, 2.5, "x", [1], True])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(ValueError, match=r"^seed: expected a whole number of at least 0, got "):
        sentence_pairs(1, seed=seed)
