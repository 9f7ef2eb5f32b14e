"""The captions written by hand: their text, and that their links lead where a reader would go."""

from unmasked_book.captions import CAPTIONS, caption_words


def sides(caption):
    return caption_words(caption.german), caption_words(caption.english)


def test_there_are_eighty_different_pairs():
    assert len({caption.german for caption in CAPTIONS}) == len(CAPTIONS) == 80
    assert len({caption.english for caption in CAPTIONS}) == 80


def test_most_words_are_linked_and_the_full_stops():
    for caption in CAPTIONS:
        lengths = [len(words) for words in sides(caption)]
        for side, length in enumerate(lengths):
            linked = {link[side] for link in caption.alignment}
            assert linked <= set(range(length)), caption
            assert len(linked) >= 0.8 * length, caption
        assert tuple(length - 1 for length in lengths) in caption.alignment
