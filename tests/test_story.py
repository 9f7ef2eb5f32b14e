"""The book's two sentences as numbers, and back."""

import pytest

from unmasked import story


def test_the_batch_is_that_of_chapter_1():
    source, target = story.batch()
    assert source.tolist() == [[3, 4, 5, 6, 2], [7, 2, 0, 0, 0]]
    assert target.tolist() == [[1, 3, 4, 5, 6, 2], [1, 7, 8, 2, 0, 0]]


def test_words_come_back():
    source, target = story.batch()
    assert story.words(source, story.GERMAN)[1] == ["danke", "<eos>", "<pad>", "<pad>", "<pad>"]
    assert story.words(target, story.ENGLISH)[0] == "<bos> i want a beer <eos>".split()  # noqa: SIM905


def test_an_unknown_word_is_named():
    with pytest.raises(ValueError, match=r"word: expected .*, got 'cola'"):
        story.tokens(["eine cola"], ["eine"])
