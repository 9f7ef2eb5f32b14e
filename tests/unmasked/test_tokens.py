"""Words and subwords as tokens: there and back, what is learnt and kept, and what is refused."""

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.refusals import refusals
from unmasked.tokens import BOS, EOS, PADDING, SPECIAL_PIECES, UNKNOWN, Subwords, Words

WORDS = Words.of(["der hund schläft", "schläft der alte hund ?"])
TEXT = ["Der alte Hund schläft.", "The old dog sleeps, the dog sleeps.", "ein Hund, ein Hund"]
SMALL = Subwords.of(TEXT, 50)
COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "copy": copy.copy,
    "file": lambda x: Subwords.from_json(x.to_json()),
}


# --- Whole words ------------------------------------------------------------------------------


def test_the_special_tokens_come_first_then_the_words_in_order():
    assert WORDS.words == ["<pad>", "<bos>", "<eos>", "?", "alte", "der", "hund", "schläft"]
    assert [WORDS.words[number] for number in (PADDING, BOS, EOS)] == ["<pad>", "<bos>", "<eos>"]
    assert Words.of(["a <eos>"]).words == ["<pad>", "<bos>", "<eos>", "a"]


def test_reading_stops_at_the_end_and_leaves_special_tokens_out():
    assert WORDS.encode("der hund schläft ?") == [5, 6, 7, 3]
    assert WORDS.decode([BOS, 5, 6, EOS, 7, EOS]) == "der hund"
    assert WORDS.decode((BOS, 5, PADDING, 6, PADDING)) == "der hund"
    assert WORDS.decode([EOS, 5]) == WORDS.decode([]) == ""


def test_a_word_that_nobody_knows_is_refused():
    assert WORDS.knows("der hund ?")
    for word in ("<pad>", "<bos>", "<eos>", "Hund"):
        assert not WORDS.knows(f"der {word} hund")
        with pytest.raises(ValueError, match=f"^sentence: expected one of .* got '{word}'"):
            WORDS.encode(f"der {word} hund")


NO_WORDS = "words: expected <pad> <bos> <eos>, .*, got"
test_words_that_are_no_vocabulary_are_refused = refusals(
    (lambda: Words(["<pad>", "<eos>", "<bos>", "a"]), f"{NO_WORDS} <pad> <eos> <bos>;"),
    (lambda: Words(["<pad>", "<bos>", "<eos>", "a", "a"]), f"{NO_WORDS} <pad> <bos> <eos>;"),
    (lambda: Words([]), f"{NO_WORDS} none;"),
)


# --- Subwords ---------------------------------------------------------------------------------


def test_special_pieces_come_first_then_letters_then_the_most_frequent_pairs():
    assert SMALL.words[:4] == [*SPECIAL_PIECES.values()]
    assert [*SPECIAL_PIECES] == [PADDING, BOS, EOS, UNKNOWN]
    assert len(SMALL) == 50
    letters = {*"".join(TEXT).lower(), "▁"} - {" "}
    assert len(SMALL.merges) == 50 - len(SPECIAL_PIECES) - len(letters)
    assert Subwords.of(["abab ab ab cd"], 40).merges[0] == ("a", "b")
    with pytest.raises(ValueError, match=r"^size: expected a whole number of at least 8"):
        Subwords.of(TEXT, 7)
    assert len(Subwords.of(["ab"], 8)) <= 8


def test_frequent_words_are_whole_and_rare_ones_in_pieces_and_all_come_back_lower_cased():
    assert SMALL.pieces("Dog hund") == ["▁dog", "▁hund"]
    assert "".join(SMALL.pieces("schlund")) == "▁schlund"
    assert len(SMALL.pieces("schlund")) > 2
    for text in TEXT:
        assert SMALL.decode([BOS, *SMALL.encode(text), EOS, 7, 8]) == text.lower()
    cased = Subwords.of(TEXT, 50, lowercase=False)
    assert all(made.decode(made.encode(TEXT[0])) == TEXT[0] for made in (cased, copy.copy(cased)))
    assert SMALL.encode("") == SMALL.encode("  ") == []
    with pytest.raises(ValueError, match=r": expected .*, got -1"):
        SMALL.decode([-1])


@given(st.lists(st.text("derhuncl.,", min_size=1), max_size=5))
def test_subwords_there_and_back(words):
    text = " ".join(words)
    assert SMALL.decode(SMALL.encode(text)) == text


@pytest.mark.parametrize("text", ["DER HUND", " der \t hund\n", "der\u00a0hund"])
def test_writings_of_the_same_are_the_same(text):
    assert SMALL.encode(text) == SMALL.encode("der hund")
    assert SMALL.encode("schla\u0308ft") == SMALL.encode("schl\u00e4ft")  # dots written apart


def test_a_letter_that_was_never_seen_is_unknown_and_harms_nothing_else():
    assert SMALL.encode("der ж hund")[-1] == SMALL.encode("hund")[0]
    assert [SMALL.knows(text) for text in ("der hund", "der ж")] == [True, False]


@pytest.mark.parametrize("again", COPIES.values(), ids=COPIES)
def test_a_copy_too_reads_the_name_of_a_special_token_as_text(again):
    """The library's own copy would end the sentence there."""
    made = again(SMALL)
    assert made is not SMALL
    assert made.to_json() == SMALL.to_json() == Subwords.of(list(TEXT), 50).to_json()
    for name in SPECIAL_PIECES.values():
        assert made.encode(f"der {name} hund") == SMALL.encode(f"der {name} hund")
        assert not {PADDING, BOS, EOS} & set(made.encode(f"der {name} hund"))


# --- A tokenizer's file -------------------------------------------------------------------------


def changed(part, value):
    """The file of SMALL with another value at a path such as model.dropout."""
    other = json.loads(SMALL.to_json())
    *path, name = part.split(".")
    place = other
    for key in path:
        place = place[key]
    place[name] = value
    return json.dumps(other)


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("", "Expecting value"),
        ("[" * 100_000, ""),
        (changed("model.merges", [["a", "b", "ab"]]), ""),
        (changed("model.vocab", [SMALL.words]), ""),
        *[(changed(f"model.vocab.{SMALL.words[-1]}", n), "") for n in ("7", 50_000, -1, 4)],
        (SMALL.to_json().replace("<pad>", "[PAD]"), r"\['\[PAD\]', "),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(text, got):
    with pytest.raises(ValueError, match=rf"^tokenizer: expected .*, got .*{got}.*; "):
        Subwords.from_json(text)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("normalizer", {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}),
        ("normalizer", None),
        ("truncation", {"max_length": 3}),
        ("model.dropout", 0.5),
    ],
)
def test_steps_of_a_files_own_are_not_read(part, value):
    """Some never end, some take all memory, some abort Python, some change words unsaid."""
    assert Subwords.from_json(changed(part, value)).to_json() == SMALL.to_json()


def test_what_is_checked_is_what_is_read():
    """Of two parts of one name, one reader takes the first and another the last."""
    text = SMALL.to_json().strip()
    twice = '{"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"},' + text[1:]
    assert Subwords.from_json(twice).to_json() == text
