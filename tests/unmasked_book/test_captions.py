"""The captions written by hand: their text, and that their links lead where a reader would go."""

from unmasked_book.captions import CAPTIONS, Caption, caption_words, read


def sides(caption):
    return caption_words(caption.german), caption_words(caption.english)


def test_there_are_eighty_different_pairs():
    assert len({caption.german for caption in CAPTIONS}) == len(CAPTIONS) == 80
    assert len({caption.english for caption in CAPTIONS}) == 80


def test_words_are_what_stands_between_blanks_and_punctuation_by_itself():
    text = "Der U-Bahn-Fahrer, der das  child's hat: so; ja."
    expected = "Der U-Bahn-Fahrer , der das child's hat : so ; ja ."
    assert caption_words(text) == expected.split(" ")
    assert caption_words("") == []


def test_a_text_is_read_three_lines_at_a_time():
    text = "\nEin Hund.\nA dog.\n0-0 1-1 2-2\n\nIm Haus.\nIn the house.\n0-0 0-1 1-2 2-3\n"
    assert list(read(text)) == [
        Caption("Ein Hund.", "A dog.", frozenset({(0, 0), (1, 1), (2, 2)})),
        Caption("Im Haus.", "In the house.", frozenset({(0, 0), (0, 1), (1, 2), (2, 3)})),
    ]


def test_most_words_are_linked_and_the_full_stops():
    for caption in CAPTIONS:
        lengths = [len(words) for words in sides(caption)]
        for side, length in enumerate(lengths):
            linked = {link[side] for link in caption.alignment}
            assert linked <= set(range(length)), caption
            assert len(linked) >= 0.8 * length, caption
        assert tuple(length - 1 for length in lengths) in caption.alignment
