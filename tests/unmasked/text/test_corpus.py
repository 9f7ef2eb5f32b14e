"""A seed decides the batches of a corpus, which is in memory or read during training."""

from itertools import islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import same_tensors
from helpers.refusals import refusals
from helpers.small_training import quiet, small, stopping_at
from unmasked.storage.weights import tensors_of
from unmasked.text.corpus import Corpus, Cursor, StreamedCorpus, batches_by_tokens, lines
from unmasked.text.phrasebook import sentence_pairs
from unmasked.text.sources import load_data
from unmasked.tokens import BOS, EOS, Words, pad

PAIRS = [("b a", "c"), ("a", "b b"), ("c a b", "a"), ("b", "c"), ("c b", ""), ("c", "a b c a b c")]
TEXTS = [" ".join("abcdefghijk"[i % 5 : i % 5 + 1 + i % 7]) for i in range(40)]
MANY = [(text, text[::-1]) for text in TEXTS]
WORDS, LETTERS = Words.of(["a b c"]), Words.of(TEXTS)
ALL = 1000  # a buffer with room for all


def held(pairs=MANY, words=LETTERS):
    return Corpus.of(words, words, pairs)


def streamed(pairs=MANY, words=LETTERS, buffer=15):
    return StreamedCorpus(lambda: iter(pairs), words, words, buffer=buffer)


BOTH = pytest.mark.parametrize("made", [held, streamed])


def some(corpus, count=30, *, max_tokens=60, seed=0, start=Cursor()):  # noqa: B008
    """Lists batches as numbers, in both directions, each with its labels and the place after it."""
    found = []
    for batch, place in islice(corpus.stream(max_tokens, seed, start), count):
        sides = [x.tolist() for back in (False, True) for x in corpus.batch(batch, back)]
        found.append((sides, [corpus.labels(batch, back) for back in (False, True)], place))
    return found


# --- Batches of similar lengths ---------------------------------------------------------------


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=200), room=st.integers(40, 300))
def test_every_sentence_once_and_no_batch_too_large(lengths, room):
    batches = batches_by_tokens(lengths, room)
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    assert all(max(lengths[i] for i in batch) * len(batch) <= room for batch in batches)


def test_little_padding():
    lengths = torch.randint(1, 60, (2000,)).tolist()

    def draw(seed):
        return batches_by_tokens(lengths, 1000, generator=torch.Generator().manual_seed(seed))

    padded = sum(max(lengths[i] for i in batch) * len(batch) for batch in draw(1))
    assert sum(lengths) / padded > 0.97
    assert draw(1) == draw(1) != draw(2)
    assert sorted(map(sorted, draw(1))) != sorted(map(sorted, draw(2)))


# --- What a corpus gives ----------------------------------------------------------------------


@BOTH
def test_a_batch_is_padded_and_can_be_turned_back(made):
    corpus = made(PAIRS[:2], WORDS)
    [(sides, labels, _)] = some(corpus, 1)
    a, b, c = WORDS.encode("a b c")
    rows = sorted(zip(*sides, strict=True), key=str)
    expected = [
        ([a, EOS, 0], [BOS, b, b, EOS], [b, b, EOS], [BOS, a, EOS, 0]),
        ([b, a, EOS], [BOS, c, EOS, 0], [c, EOS, 0], [BOS, b, a, EOS]),
    ]
    assert rows == sorted(expected, key=str)
    assert labels == [3 + 2, 2 + 3]  # the words after the first, and the end


@BOTH
def test_an_epoch_has_each_pair_once_in_batches_that_are_not_too_large(made):
    corpus = made(PAIRS, WORDS)
    batches = [corpus.batch(batch) for batch in corpus.epoch(0, 8, seed=1)]
    assert all(side.numel() <= 8 for batch in batches for side in batch)
    read = [WORDS.decode(row) for source, _ in batches for row in source.tolist()]
    assert sorted(read) == sorted(text for text, _ in PAIRS)


@BOTH
def test_the_order_follows_from_the_seed_and_changes_from_pass_to_pass(made):
    """Random numbers that are drawn elsewhere make no difference."""
    passes = [str(list(made().epoch(epoch, 60, seed))) for epoch in (0, 1) for seed in (0, 1)]
    assert len(set(passes)) == 4
    torch.manual_seed(3)
    assert str(list(made().epoch(1, 60, 0))) == passes[2]


@BOTH
def test_the_stream_goes_through_epoch_after_epoch_and_on_from_any_place(made):
    first, second = (list(made().epoch(epoch, 60, 7)) for epoch in (0, 1))
    found = list(islice(made().stream(60, 7), len(first) + len(second)))
    assert [batch for batch, _ in found] == first + second
    places = [
        Cursor(epoch, n + 1) for epoch, e in enumerate((first, second)) for n in range(len(e))
    ]
    assert [place for _, place in found] == places
    whole = some(made(), 30)
    for done in (1, 11, 13, 14, 29):  # also at the end of a pass, and in a later one
        assert some(made(), 30 - done, start=whole[done - 1][-1]) == whole[done:]


@BOTH
def test_the_fingerprint_knows_the_sentences_their_order_and_their_boundaries(made):
    pairs = [MANY, MANY[::-1], MANY[1:], [MANY[0], MANY[1][::-1], *MANY[2:]]]
    assert len({made(some).fingerprint() for some in pairs}) == 4
    assert streamed().fingerprint() != streamed(buffer=16).fingerprint()
    source, target = [[5, 6, EOS], [7, EOS]], [[BOS, 3, EOS], [BOS, EOS]]
    one, other = Corpus(source, target), Corpus([[5, 6], [EOS, 7, EOS]], target)
    assert one.fingerprint() == "8059de6e105cd6b7" != other.fingerprint()  # everywhere


def test_no_more_than_a_buffer_is_read_ahead():
    read = given = 0

    def counting():
        nonlocal read
        for number in range(10_000):
            read += 1
            yield TEXTS[number % 40], TEXTS[number % 40]

    corpus = StreamedCorpus(counting, LETTERS, LETTERS, buffer=50)
    for batch, _ in islice(corpus.stream(60, 0), 300):
        assert read - given <= 50
        given += len(batch)
    assert 1000 < given <= read


def test_training_from_a_stream_is_training_from_memory_also_when_resumed(tmp_path):
    sizes = {"source_vocab": len(LETTERS), "target_vocab": len(LETTERS)}
    whole, stopped, parts = (small(**sizes) for _ in range(3))
    quiet(whole, corpus=held())
    options = {"corpus": streamed(buffer=ALL), "folder": tmp_path, "checkpoint_every": 5}
    with stopping_at(8), pytest.raises(KeyboardInterrupt):
        quiet(stopped, **options)
    with pytest.raises(ValueError, match="resume: expected data="):
        quiet(parts, **{**options, "corpus": streamed(buffer=16)}, resume=True)
    quiet(parts, **options, resume=True)
    assert same_tensors(tensors_of(whole), tensors_of(parts))


# --- Lines of two files -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("eins\n\ndrei\n", "one\n\nthree", [("eins", "one"), ("", ""), ("drei", "three")]),
        ("eins\rzwei\r\ndrei\n", "one\nthrée\n", [("eins\rzwei", "one"), ("drei", "thrée")]),
    ],
)
def test_two_files_line_by_line(tmp_path, one, other, expected):
    """A carriage return within a line ends no line."""
    for name, text in (("a", one), ("b", other)):
        (tmp_path / name).write_bytes(text.encode())
    assert list(lines(tmp_path / "a", str(tmp_path / "b"))) == expected
    (tmp_path / "b").write_bytes(other.encode() + b"\none more\n")
    with pytest.raises(ValueError, match=r"a: expected a line \d, got its end"):
        list(lines(tmp_path / "a", tmp_path / "b"))


# --- What is refused --------------------------------------------------------------------------


test_what_is_refused = refusals(
    (lambda: batches_by_tokens([3, 9], 8), "max_tokens: expected room for the longest.*, 9"),
    (lambda: pad([[3], []]), "sentences: expected sentences of at least one token"),
    (lambda: next(streamed([]).stream(60, 0)), "read: expected at least one pair.*, got none"),
    (lambda: sentence_pairs(0), "count: expected a whole number of at least 1, got 0"),
    (lambda: load_data("bible", {}), "data.name: expected .* 'multi30k' or 'files', got 'bible'"),
    (lambda: load_data("phrasebook", {"count": 5, "size": 3}),
         r"\[data\] of phrasebook: expected 'count' or 'seed', got 'size'"),
    (lambda: load_data("multi30k", {"source": "en"}), "source and target: .*, got en and en"),
    (lambda: load_data("multi30k", {"vocabulary": 99}), "vocabulary: expected .* 100, got 99"),
)  # fmt: skip
