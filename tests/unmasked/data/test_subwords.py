"""Subwords: what is learnt, what is kept, and that nothing is lost on the way."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmasked.config import BOS, EOS, PADDING
from unmasked.data.vocabulary import SPECIAL_PIECES, UNKNOWN, Subwords

TEXT = ["Der alte Hund schläft.", "The old dog sleeps, the dog sleeps.", "ein Hund, ein Hund"]
SMALL = Subwords.of(TEXT, 50)


def test_the_special_tokens_come_first():
    assert [SMALL.tokenizer.token_to_id(name) for name in SPECIAL_PIECES.values()] == [
        PADDING, BOS, EOS, UNKNOWN,
    ]  # fmt: skip
    assert len(SMALL) == 50


def test_frequent_words_are_whole_and_rare_ones_in_pieces():
    assert SMALL.pieces("Dog hund") == ["▁dog", "▁hund"]
    assert "".join(SMALL.pieces("schlund")) == "▁schlund"
    assert len(SMALL.pieces("schlund")) > 2


def test_the_first_merge_is_the_most_frequent_pair():
    counted = Subwords.of(["abab ab ab cd"], 40)
    assert counted.merges[0] == ("a", "b")
    assert len(SMALL.merges) == 50 - len(SPECIAL_PIECES) - len(
        {*"".join(TEXT).lower(), "▁"} - {" "}
    )


def test_numbers_become_the_lower_cased_sentence_again():
    for text in TEXT:
        assert SMALL.decode([BOS, *SMALL.encode(text), EOS, 7, 8]) == text.lower()
    assert SMALL.decode([]) == ""
    assert SMALL.encode("") == SMALL.encode("  ") == []


@given(st.lists(st.text("derhuncl.,", min_size=1), max_size=5))
def test_there_and_back(words):
    text = " ".join(words)
    assert SMALL.decode(SMALL.encode(text)) == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("DER HUND", "der hund"),
        (" der \t hund\n", "der hund"),
        ("der\u00a0hund", "der hund"),  # a blank that does not break
        ("schla\u0308ft", "schl\u00e4ft"),  # a letter and its dots, written apart
    ],
)
def test_writings_of_the_same_are_the_same(text, same):
    assert SMALL.encode(text) == SMALL.encode(same)


def test_a_letter_that_was_never_seen_is_unknown_and_harms_nothing_else():
    assert SMALL.encode("der ж hund")[-1] == SMALL.encode("hund")[0]
    assert UNKNOWN in SMALL.encode("ж")
    assert [SMALL.knows(text) for text in ("der hund", "der ж")] == [True, False]


def test_the_name_of_a_special_token_in_a_text_is_a_text():
    for name in SPECIAL_PIECES.values():
        assert not {PADDING, BOS, EOS} & set(SMALL.encode(f"der {name} hund"))


def test_the_same_text_gives_the_same_subwords_and_their_file_gives_them_again():
    assert Subwords.of(list(TEXT), 50).to_json() == SMALL.to_json()
    again = Subwords.from_json(SMALL.to_json())
    assert again.to_json() == SMALL.to_json()
    assert again.encode("der <eos> hund") == SMALL.encode("der <eos> hund")


@pytest.mark.parametrize("text", ["", "{}", "a tokenizer", json.dumps({"model": 3})])
def test_what_is_no_tokenizer_is_refused(text):
    with pytest.raises(ValueError, match=r"^tokenizer: expected a tokenizer\.json, got .*; fetch"):
        Subwords.from_json(text)


def test_a_tokenizer_with_other_special_tokens_is_refused():
    other = json.loads(SMALL.to_json())
    other["added_tokens"][0]["content"] = "[PAD]"
    vocabulary = other["model"]["vocab"]
    other["model"]["vocab"] = {"[PAD]" if k == "<pad>" else k: v for k, v in vocabulary.items()}
    with pytest.raises(ValueError, match=r"<pad> <bos> <eos> <unk> first, got \['\[PAD\]', "):
        Subwords.from_json(json.dumps(other))


def test_a_vocabulary_needs_room():
    with pytest.raises(ValueError, match=r"^size: expected a whole number of at least 8"):
        Subwords.of(TEXT, 3)
