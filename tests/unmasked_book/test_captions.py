"""The captions written by hand: their text, and that their links lead where a reader would go."""

import re
from collections import Counter
from itertools import pairwise

import pytest

from unmasked_book.captions import CAPTIONS, HARDER, PLAIN, Caption, caption_words, read

CAPTION = {caption.german: caption for caption in CAPTIONS}
LENGTHS = [
    len(caption_words(text)) for caption in CAPTIONS for text in (caption.german, caption.english)
]


def links(caption):
    """The alignment in words."""
    german, english = caption_words(caption.german), caption_words(caption.english)
    return [(german[i], english[j]) for i, j in sorted(caption.alignment)]


# --- The text ---------------------------------------------------------------------------------


def test_there_are_eighty_different_pairs():
    assert len(CAPTIONS) == 80
    for language in ("german", "english"):
        assert len({getattr(caption, language).casefold() for caption in CAPTIONS}) == 80


def test_a_dozen_or_so_are_harder():
    assert [len(list(read(text))) for text in (PLAIN, HARDER)] == [67, 13]


def test_each_half_goes_from_short_to_long():
    for text in (PLAIN, HARDER):
        lengths = [len(caption_words(caption.german)) for caption in read(text)]
        assert lengths == sorted(lengths)


def test_a_sentence_begins_with_a_capital_and_ends_with_its_only_full_stop():
    for caption in CAPTIONS:
        for sentence in (caption.german, caption.english):
            assert sentence[0].isupper()
            assert sentence.index(".") == len(sentence) - 1


def test_only_letters_and_plain_punctuation():
    for caption in CAPTIONS:
        assert re.fullmatch("[A-Za-zÄÖÜäöüß,. -]+", caption.german)
        assert re.fullmatch("[A-Za-z,.' -]+", caption.english)


def test_lengths_are_spread_from_four_words_to_twenty_four():
    assert min(LENGTHS) == 4 + 1  # the full stop
    assert max(LENGTHS) == 24
    spread = Counter((length - 1) // 4 for length in LENGTHS)
    assert all(spread[four_lengths] >= 5 for four_lengths in range(1, 6))


def test_a_german_word_is_not_a_noun_here_and_something_else_there():
    inside = [word for c in CAPTIONS for word in caption_words(c.german)[1:]]
    nouns = {word.lower() for word in inside if word[0].isupper()}
    both = nouns & {word for word in inside if word[0].islower()}
    assert both == {"junge"}  # a boy, and young
    assert {"hund", "straße", "u-bahn"} < nouns


# --- Words ------------------------------------------------------------------------------------


def test_words_are_what_stands_between_blanks_and_punctuation_by_itself():
    text = "Der U-Bahn-Fahrer, der das  child's hat: so; ja."
    expected = "Der U-Bahn-Fahrer , der das child's hat : so ; ja ."
    assert caption_words(text) == expected.split(" ")
    assert caption_words("") == []


def test_words_joined_again_are_the_sentence():
    for caption in CAPTIONS:
        for sentence in (caption.german, caption.english):
            assert re.sub(r" ([,.])", r"\1", " ".join(caption_words(sentence))) == sentence


def test_a_text_is_read_three_lines_at_a_time():
    text = "\nEin Hund.\nA dog.\n0-0 1-1 2-2\n\nIm Haus.\nIn the house.\n0-0 0-1 1-2 2-3\n"
    assert list(read(text)) == [
        Caption("Ein Hund.", "A dog.", frozenset({(0, 0), (1, 1), (2, 2)})),
        Caption("Im Haus.", "In the house.", frozenset({(0, 0), (0, 1), (1, 2), (2, 3)})),
    ]


# --- The alignment ----------------------------------------------------------------------------


def test_links_are_between_words_that_exist():
    for caption in CAPTIONS:
        for i, j in caption.alignment:
            assert 0 <= i < len(caption_words(caption.german)), caption
            assert 0 <= j < len(caption_words(caption.english)), caption


def test_no_link_is_written_twice():
    written = [pair.split("\n")[2].split() for pair in (PLAIN + HARDER).strip().split("\n\n")]
    assert len(written) == len(CAPTIONS)
    assert all(len(set(line)) == len(line) for line in written)


def test_most_words_are_linked():
    for caption in CAPTIONS:
        for side, sentence in enumerate((caption.german, caption.english)):
            linked = {link[side] for link in caption.alignment}
            assert len(linked) >= 0.8 * len(caption_words(sentence)), caption


def test_the_full_stops_are_linked_and_commas_only_with_commas():
    for caption in CAPTIONS:
        ends = len(caption_words(caption.german)) - 1, len(caption_words(caption.english)) - 1
        assert ends in caption.alignment
        marks = [(a, b) for a, b in links(caption) if {a, b} & {",", "."}]
        assert marks.count((".", ".")) == 1
        assert set(marks) <= {(".", "."), (",", ",")}


def test_a_german_word_is_linked_to_english_words_without_a_gap():
    for caption in CAPTIONS:
        for i, word in enumerate(caption_words(caption.german)):
            linked = sorted(j for k, j in caption.alignment if k == i)
            assert all(after - before == 1 for before, after in pairwise(linked)), (word, caption)


def test_words_that_both_languages_share_are_linked():
    """Clown and clown, Baby and baby; not German an with English an."""
    found = 0
    for caption in CAPTIONS:
        lowered = [[word.lower() for word in caption_words(text)] for text in caption[:2]]
        for word in set(lowered[0]) & set(lowered[1]):
            if len(word) > 2 and lowered[0].count(word) == lowered[1].count(word) == 1:
                assert (lowered[0].index(word), lowered[1].index(word)) in caption.alignment
                found += 1
    assert found >= 15


TRANSLATIONS = {
    "ein": "a an another", "eine": "a an", "einen": "a an", "das": "the that who",
    "der": "the who wearing", "dem": "the his her", "den": "the", "und": "and", "zur": "to the",
    "im": "in on the a", "beim": "during the", "ihr": "her", "ihrer": "her their",
    "seine": "his her", "seines": "his her", "zwei": "two", "drei": "three", "fünf": "five",
    "zwölf": "twelve", "mann": "man", "frau": "woman", "frauen": "women", "dame": "lady",
    "mädchen": "girl girls", "jungen": "boys", "kinder": "children", "vater": "father",
    "mutter": "mother", "hund": "dog", "katze": "cat", "boot": "boat", "wasser": "water",
    "straße": "street", "see": "lake", "baum": "tree", "roten": "red", "gelben": "yellow",
    "alter": "old", "großes": "large", "hinter": "behind", "neben": "next to beside",
    "während": "while", "kocht": "is cooking", "schläft": "is sleeping",
    "verkauft": "is selling sells",
}  # fmt: skip


def test_frequent_words_are_linked_with_their_translations_and_nothing_else():
    for german, english in TRANSLATIONS.items():
        linked = {b.lower() for c in CAPTIONS for a, b in links(c) if a.lower() == german}
        assert linked == set(english.split()), german


@pytest.mark.parametrize(
    ("german", "expected"),
    [
        ("Im Regen wartet ein Bus.",
         "Im-in Im-the Regen-rain wartet-is wartet-waiting ein-A Bus-bus .-."),
        ("Der Clown bläst einen Ballon auf.",
         "Der-The Clown-clown bläst-blows einen-a Ballon-balloon auf-up .-."),
        ("Zwei Feuerwehrleute klettern auf das Dach, um eine Katze zu fangen.",
         "Zwei-Two Feuerwehrleute-firefighters klettern-climb auf-onto das-the Dach-roof um-to "
         "eine-a Katze-cat zu-to fangen-catch .-."),
        ("Ein Großvater bringt seiner Enkelin bei, wie man einen Fisch fängt.",
         "Ein-A Großvater-grandfather bringt-teaches seiner-his Enkelin-granddaughter bei-teaches "
         "wie-how man-to einen-a Fisch-fish fängt-catch .-."),
        ("Der Junge, der gerade vom Fahrrad gefallen ist, weint, und seine Schwester tröstet ihn.",
         "Der-The Junge-boy der-who gerade-just vom-off vom-his Fahrrad-bike gefallen-fallen "
         "ist-has weint-is weint-crying ,-, und-and seine-his Schwester-sister tröstet-is "
         "tröstet-comforting ihn-him .-."),
    ],
)  # fmt: skip
def test_links_are_those_that_a_reader_draws(german, expected):
    assert links(CAPTION[german]) == [tuple(link.split("-")) for link in expected.split()]
