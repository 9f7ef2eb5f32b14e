"""Words and subwords become token IDs and text again; files that are no vocabulary are refused."""

import copy
import json
import pickle
from functools import reduce
from operator import getitem

import pytest

from helpers.refusals import refusals
from unmasked.tokens import BOS, EOS, PADDING, SPECIAL_PIECES, UNKNOWN, Subwords, Words

WORDS = Words.of(["der hund schläft", "schläft der alte hund ?"])
TEXT = ["Der alte Hund schläft.", "The old dog sleeps, the dog sleeps.", "ein Hund, ein Hund"]
SMALL = Subwords.of(TEXT, 50)
COPIES = [
    copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)),
    lambda x: Subwords.from_json(x.to_json()),
]  # fmt: skip


# --- Whole words ------------------------------------------------------------------------------


def test_the_special_tokens_come_first_then_the_words_in_order():
    assert WORDS.words == ["<pad>", "<bos>", "<eos>", "?", "alte", "der", "hund", "schläft"]
    assert (PADDING, BOS, EOS) == (0, 1, 2)
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
    (lambda: Words(["<pad>", "<bos>", "<eos>", 5]), f"{NO_WORDS} <pad> <bos> <eos>;"),
    (lambda: Words([]), f"{NO_WORDS} none;"),
    (lambda: Words(["<pad>", "<bos>", "<eos>", "a", "a"]), "words: expected .* each word once"),
)


# --- Subwords ---------------------------------------------------------------------------------


def test_special_pieces_come_first_then_letters_then_the_most_frequent_pairs():
    assert SMALL.words[:4] == [*SPECIAL_PIECES.values()]
    assert [*SPECIAL_PIECES] == [PADDING, BOS, EOS, UNKNOWN]
    assert len(SMALL) == 50
    letters = {*"".join(TEXT).lower(), "▁"} - {" "}
    assert len(SMALL.merges) == 50 - len(SPECIAL_PIECES) - len(letters)
    assert Subwords.of(["abab ab ab cd"], 40).merges[0] == ("a", "b")
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


def test_writings_of_the_same_are_the_same_and_an_unknown_letter_harms_nothing_else():
    for text in ("DER HUND", " der \t hund\n", "der\u00a0hund"):
        assert SMALL.encode(text) == SMALL.encode("der hund")
    assert SMALL.encode("schla\u0308ft") == SMALL.encode("schl\u00e4ft")  # dots written apart
    assert SMALL.encode("der ж hund")[-1] == SMALL.encode("hund")[0]
    assert [SMALL.knows(text) for text in ("der hund", "der ж")] == [True, False]


@pytest.mark.parametrize("again", COPIES)
def test_a_copy_too_reads_the_name_of_a_special_token_as_text(again):
    """A copy by the library itself would end the sentence there."""
    made = again(SMALL)
    assert made is not SMALL
    assert made.to_json() == SMALL.to_json() == Subwords.of(list(TEXT), 50).to_json()
    for name in SPECIAL_PIECES.values():
        assert made.encode(f"der {name} hund") == SMALL.encode(f"der {name} hund")
        assert not {PADDING, BOS, EOS} & set(made.encode(f"der {name} hund"))


# --- A tokenizer's file -------------------------------------------------------------------------


def changed(part, value):
    """Returns the file of SMALL with another value at a path such as model.dropout."""
    other = json.loads(SMALL.to_json())
    *path, name = part.split(".")
    reduce(getitem, path, other)[name] = value
    return json.dumps(other)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        changed("model.merges", [["a", "b", "ab"]]),
        changed("model.vocab", [SMALL.words]),
        *[changed(f"model.vocab.{SMALL.words[-1]}", n) for n in ("7", 50_000, -1, 4)],
        SMALL.to_json().replace("<pad>", "[PAD]"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(text):
    with pytest.raises(ValueError, match=r"^tokenizer: expected .*, got .+; "):
        Subwords.from_json(text)


TWICE = '{"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"},'


@pytest.mark.parametrize(
    "text",
    [
        changed("normalizer", {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}),
        changed("normalizer", None),
        changed("truncation", {"max_length": 3}),
        changed("model.dropout", 0.5),
        TWICE + SMALL.to_json().strip()[1:],  # one reader takes the first part, another the last
    ],
)
def test_steps_of_a_files_own_are_not_read(text):
    """Some steps never end, take all memory, abort Python, or change words unsaid."""
    assert Subwords.from_json(text).to_json() == SMALL.to_json()
