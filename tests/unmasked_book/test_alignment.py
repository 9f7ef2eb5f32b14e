"""Words that belong together are found, without knowing any of them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmasked import load
from unmasked.data.phrasebook import sentence_pairs
from unmasked.data.vocabulary import Words
from unmasked_book.captions import CAPTIONS, caption_words
from unmasked_book.heads import align, between_pieces, strongest, word_of_each


def test_the_phrasebooks_alignments_are_found():
    drawn = sentence_pairs(1500, seed=0)
    german = Words.of(pair.german for pair in drawn)
    english = Words.of(pair.english for pair in drawn)
    found = align(
        [german.encode(pair.german) for pair in drawn],
        [english.encode(pair.english) for pair in drawn],
    )
    right = sum(len(links & pair.alignment) for links, pair in zip(found, drawn, strict=True))
    assert right / sum(map(len, found)) > 0.93
    assert right / sum(len(pair.alignment) for pair in drawn) > 0.75


def test_words_that_often_come_together_are_aligned_wherever_they_stand():
    """Each word has one translation; where it stands is left to chance."""
    dice = random.Random(0)
    source = [dice.sample(range(3, 13), 4) for _ in range(300)]
    orders = [dice.sample(range(4), 4) for _ in source]
    target = [[10 * a[place] for place in order] for a, order in zip(source, orders, strict=True)]
    found = [place for places in strongest(source, target) for place in places]
    expected = [place for order in orders for place in order]
    same = sum(a == b for a, b in zip(found, expected, strict=True))
    assert same / len(expected) > 0.9  # the diagonal alone would find a quarter
    links = align(source, target)
    right = sum(order[t] == s for order, link in zip(orders, links, strict=True) for s, t in link)
    assert right / sum(map(len, links)) > 0.95


def test_of_equal_words_the_one_at_the_same_place_is_taken():
    assert align([[1, 1, 1]], [[5, 5, 5]]) == [{(0, 0), (1, 1), (2, 2)}]


def test_only_what_both_directions_agree_on_is_kept():
    """A word made of two has one of them for its own; the other is left alone."""
    source, target = [[1, 2], [1], [2, 1]], [[10], [10], [10]]
    assert strongest(target, source)[0] == [0, 0]
    assert align(source, target)[0] == {(0, 0)}


@given(st.lists(st.tuples(*[st.lists(st.integers(3, 9), min_size=1, max_size=5)] * 2), min_size=1))
def test_each_word_has_one_link_at_most_and_each_link_two_words(drawn):
    source, target = ([list(pair[side]) for pair in drawn] for side in (0, 1))
    for links, a, b in zip(align(source, target), source, target, strict=True):
        assert all(s < len(a) and t < len(b) for s, t in links)
        assert len({s for s, _ in links}) == len({t for _, t in links}) == len(links)


def test_nothing_to_align_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        align([], [])


# --- Words in pieces --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "got"),
    [([[1, 2], []], [[3], [4]], "2 and 2, 1 empty"), ([[1, 2]], [[3], [4]], "1 and 2, 0 empty")],
)
def test_sentences_without_another_side_are_refused(source, target, got):
    with pytest.raises(ValueError, match=f"target: expected as many .* got {got}; leave out"):
        align(source, target)


def test_each_piece_belongs_to_its_word():
    pieces = ["▁ein", "▁eis", "ver", "käufer", ",", "▁", "x", "▁geht", "."]
    assert word_of_each(pieces, ["ein", "eisverkäufer", ",", "x", "geht", "."]) == [
        0, 1, 1, 1, 2, 3, 3, 4, 5,
    ]  # fmt: skip


def test_the_own_captions_can_all_be_counted_in_pieces():
    for name, side in (("de-en", 0), ("en-de", 1)):
        vocabulary = load(name).source
        for caption in CAPTIONS:
            text = caption[side]
            numbers = word_of_each(vocabulary.pieces(text), caption_words(text.lower()))
            assert sorted(set(numbers)) == list(range(len(caption_words(text))))


@pytest.mark.parametrize(
    ("pieces", "given"), [(["▁a", "<unk>"], ["a", "b"]), ([], []), (["▁"], [])]
)
def test_pieces_of_another_sentence_are_refused(pieces, given):
    with pytest.raises(ValueError, match=r"^pieces: expected all letters of the words, got "):
        word_of_each(pieces, given)


def test_links_of_words_become_links_of_all_their_pieces():
    assert between_pieces({(0, 1), (1, 0)}, [0, 0, 1], [0, 1]) == {(0, 1), (1, 1), (2, 0)}
