"""Words as tokens: there and back, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmasked.config import BOS, EOS, PADDING
from unmasked.data.vocabulary import Words

WORDS = Words.of(["der hund schläft", "schläft der alte hund ?"])


def test_the_special_tokens_come_first_then_the_words_in_order():
    assert WORDS.words == ["<pad>", "<bos>", "<eos>", "?", "alte", "der", "hund", "schläft"]
    assert [WORDS.words[number] for number in (PADDING, BOS, EOS)] == ["<pad>", "<bos>", "<eos>"]
    assert len(WORDS) == 8


def test_what_it_knows():
    assert WORDS.knows("der hund ?")
    assert not WORDS.knows("der Hund")


def test_the_order_of_the_sentences_does_not_matter():
    assert Words.of(["b a", "c"]).words == Words.of(["c a", "a b b"]).words


def test_special_tokens_in_a_text_are_not_counted_twice():
    assert Words.of(["a <eos>"]).words == Words.of(["a"]).words == ["<pad>", "<bos>", "<eos>", "a"]


def test_words_become_numbers_and_numbers_words():
    assert WORDS.encode("der hund schläft ?") == [5, 6, 7, 3]
    assert WORDS.decode([5, 6, 7, 3]) == "der hund schläft ?"
    assert WORDS.encode("") == []
    assert WORDS.decode([]) == ""


def test_reading_stops_at_the_end_and_leaves_special_tokens_out():
    assert WORDS.decode([BOS, 5, 6, EOS, 7, EOS]) == "der hund"
    assert WORDS.decode((BOS, 5, PADDING, 6, PADDING)) == "der hund"
    assert WORDS.decode([EOS, 5]) == ""


@given(st.lists(st.sampled_from(WORDS.words[3:])))
def test_there_and_back(words):
    assert WORDS.decode([BOS, *WORDS.encode(" ".join(words)), EOS]) == " ".join(words)


def test_a_vocabulary_can_be_made_again_from_its_words():
    assert Words(tuple(WORDS.words)).numbers == WORDS.numbers


@pytest.mark.parametrize("word", ["<pad>", "<bos>", "<eos>"])
def test_a_special_token_in_a_text_is_a_word_that_nobody_knows(word):
    assert not WORDS.knows(f"der {word} hund")
    with pytest.raises(ValueError, match=f"sentence: expected .* got '{word}'"):
        WORDS.encode(f"der {word} hund")


def test_an_unknown_word_is_refused():
    message = "sentence: expected one of the 8 words that the model has learnt, got 'Hund'; write"
    with pytest.raises(ValueError, match=f"^{message} in lower case, with blanks around , and [?]"):
        WORDS.encode("der Hund schläft")


@pytest.mark.parametrize(
    ("words", "got"),
    [
        (["a", "b", "c"], "a b c"),
        (["<pad>", "<eos>", "<bos>", "a"], "<pad> <eos> <bos>"),
        (["<pad>", "<bos>", "<eos>", "a", "a"], "<pad> <bos> <eos>"),
        ([], "none"),
    ],
)
def test_a_vocabulary_without_its_beginning_or_with_a_word_twice_is_refused(words, got):
    message = f"^words: expected <pad> <bos> <eos>, then each word once, got {got}; make the"
    with pytest.raises(ValueError, match=message):
        Words(words)
