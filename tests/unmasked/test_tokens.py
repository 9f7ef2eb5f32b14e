"""Words and subwords as tokens: there and back, what is learnt and kept, and what is refused."""

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from unmasked.tokens import BOS, EOS, PADDING, SPECIAL_PIECES, UNKNOWN, Subwords, Words, same_words

WORDS = Words.of(["der hund schläft", "schläft der alte hund ?"])
TEXT = ["Der alte Hund schläft.", "The old dog sleeps, the dog sleeps.", "ein Hund, ein Hund"]
SMALL = Subwords.of(TEXT, 50)
COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "copy": copy.copy,
}


# --- Whole words ------------------------------------------------------------------------------


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
def test_words_there_and_back(words):
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


# --- Subwords ---------------------------------------------------------------------------------


def test_the_special_pieces_come_first():
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
def test_subwords_there_and_back(words):
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
    with pytest.raises(ValueError, match=r"^tokenizer: expected a tokenizer\.json .*; fetch"):
        Subwords.from_json(text)


def test_a_tokenizer_with_other_special_tokens_is_refused():
    other = json.loads(SMALL.to_json())
    other["added_tokens"][0]["content"] = "[PAD]"
    vocabulary = other["model"]["vocab"]
    other["model"]["vocab"] = {"[PAD]" if k == "<pad>" else k: v for k, v in vocabulary.items()}
    with pytest.raises(ValueError, match="got another added_tokens; fetch"):
        Subwords.from_json(json.dumps(other))
    with pytest.raises(ValueError, match=r"<pad> <bos> <eos> <unk> first, got \['\[PAD\]', "):
        Subwords(Tokenizer.from_str(json.dumps(other)))


REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"}


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("normalizer", {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}),
        ("normalizer", {"type": "Sequence", "normalizers": [REPLACE] * 9}),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        ("normalizer", None),
        ("padding", {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None,
                     "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}),
        ("truncation", {"direction": "Right", "max_length": 3, "strategy": "LongestFirst",
                        "stride": 0}),
        ("post_processor", {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                            "use_regex": True}),
        ("model.dropout", 0.5),
        ("model.continuing_subword_prefix", "x" * 100),
        ("model", [1]),
    ],
)  # fmt: skip
def test_a_tokenizer_with_steps_of_its_own_is_refused(part, value):
    """Some never end, some take all memory, some abort Python, some change words unsaid."""
    other = json.loads(SMALL.to_json())
    where, _, name = part.rpartition(".")
    (other[where] if where else other)[name] = value
    with pytest.raises(
        ValueError, match=f"got another {part}; fetch" if where else f"got another {part}"
    ):
        Subwords.from_json(json.dumps(other))


def test_pieces_must_be_numbered_from_zero():
    for number in (50_000, -1, 4):
        other = json.loads(SMALL.to_json())
        other["model"]["vocab"][SMALL.words[-1]] = number
        with pytest.raises(ValueError, match=r"got another model\.vocab"):
            Subwords.from_json(json.dumps(other))


def test_what_is_checked_is_what_is_read():
    """Of two parts of one name, one reader takes the first and another the last."""
    text = SMALL.to_json().strip()
    twice = '{"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"},' + text[1:]
    assert Subwords.from_json(twice).to_json() == SMALL.to_json()


def test_merges_of_pieces_that_are_not_there_are_refused():
    other = json.loads(SMALL.to_json())
    other["model"]["merges"].append(["no", "piece"])
    with pytest.raises(ValueError, match=r"as Subwords\.of makes it, got .*; fetch or make"):
        Subwords.from_json(json.dumps(other))


@pytest.mark.parametrize("words", [[1, 2, 3], [["a"]], ["<pad>", "<bos>", "<eos>", 5]])
def test_words_are_texts(words):
    with pytest.raises(ValueError, match=r"words: expected <pad> <bos> <eos>, then each word once"):
        Words(words)


def test_a_file_of_an_older_version_of_the_library_is_read():
    other = json.loads(SMALL.to_json())
    del other["model"]["ignore_merges"]
    assert Subwords.from_json(json.dumps(other)).to_json() == SMALL.to_json()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"model": ' * 5000])
def test_nesting_without_end_is_refused(text):
    with pytest.raises(ValueError, match=r"as Subwords\.of makes it, got "):
        Subwords.from_json(text)


def test_subwords_need_room():
    with pytest.raises(ValueError, match=r"^size: expected a whole number of at least 8"):
        Subwords.of(TEXT, 3)


@pytest.mark.parametrize("again", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("name", SPECIAL_PIECES.values())
def test_a_copy_reads_the_name_of_a_special_token_as_text_too(again, name):
    """The library's own copy would end the sentence there."""
    text, made = f"der {name} hund", again(SMALL)
    assert made is not SMALL
    assert made.encode(text) == SMALL.encode(text)
    assert not {PADDING, BOS, EOS} & set(made.encode(text))
    assert made.to_json() == SMALL.to_json()


def test_the_same_words_are_found_by_object_or_by_their_words():
    assert same_words(WORDS, WORDS)
    assert same_words(WORDS, Words(list(WORDS.words)))
    assert same_words(SMALL, Subwords.from_json(SMALL.to_json()))
    others = Words.of(["a b c d e"])
    assert len(others) == len(WORDS)
    assert not same_words(WORDS, others)
    assert not same_words(SMALL, Subwords.of([*TEXT, "xyz"], 50))
