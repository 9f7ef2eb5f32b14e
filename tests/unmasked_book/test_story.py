"""The book's two sentences as numbers, and back."""

import pytest

from unmasked_book import examples


def test_the_batch_is_that_of_chapter_1():
    source, target = examples.sentence_batch()
    assert source.tolist() == [[3, 4, 5, 6, 2], [7, 2, 0, 0, 0]]
    assert target.tolist() == [[1, 3, 4, 5, 6, 2], [1, 7, 8, 2, 0, 0]]


def test_words_come_back():
    source, target = examples.sentence_batch()
    assert examples.sentence_words(source, examples.GERMAN)[1] == [
        "danke",
        "<eos>",
        "<pad>",
        "<pad>",
        "<pad>",
    ]
    assert examples.sentence_words(target, examples.ENGLISH)[0] == [
        "<bos>",
        "i",
        "want",
        "a",
        "beer",
        "<eos>",
    ]


def test_an_unknown_word_is_named():
    with pytest.raises(ValueError, match=r"word: expected .*, got 'cola'"):
        examples.sentence_tokens(["eine cola"], ["eine"])
