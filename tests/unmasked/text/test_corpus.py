"""Sentence pairs in batches that a seed decides, and the data that a name stands for."""

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmasked.text.corpus import Corpus, Cursor, batches_by_tokens
from unmasked.text.phrasebook import sentence_pairs
from unmasked.text.sources import SOURCES, load_data, phrasebook_test
from unmasked.tokens import BOS, EOS, pad

SOURCE = [[5, 6, EOS], [7, EOS], [8, 9, 10, EOS], [5, EOS], [6, 7, EOS]]
TARGET = [[BOS, 3, EOS], [BOS, 4, 4, EOS], [BOS, 3, EOS], [BOS, 4, EOS], [BOS, EOS]]
CORPUS = Corpus(SOURCE, TARGET)


# --- Batches of similar lengths ---------------------------------------------------------------


def test_padding_fills_up_on_the_right():
    assert pad([[5, 6, 7], [8], [9, 9]]).tolist() == [[5, 6, 7], [8, 0, 0], [9, 9, 0]]
    assert pad([[5]]).dtype == torch.int64
    assert pad([torch.tensor([5, 6]), np.array([7])]).tolist() == [[5, 6], [7, 0]]


@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=200), room=st.integers(40, 300))
def test_every_sentence_once_and_no_batch_too_large(lengths, room):
    batches = batches_by_tokens(lengths, room, generator=torch.Generator().manual_seed(0))
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    assert all(max(lengths[i] for i in batch) * len(batch) <= room for batch in batches)


def test_little_padding():
    lengths = torch.randint(1, 60, (2000,)).tolist()
    batches = batches_by_tokens(lengths, 1000)
    padded = sum(max(lengths[i] for i in batch) * len(batch) for batch in batches)
    assert sum(lengths) / padded > 0.97


def test_shuffled_by_the_generator_alone():
    lengths = [3] * 50 + [5] * 50

    def draw(seed):
        return batches_by_tokens(lengths, 30, generator=torch.Generator().manual_seed(seed))

    assert draw(1) == draw(1) != draw(2)
    assert sorted(map(sorted, draw(1))) != sorted(map(sorted, draw(2)))


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"max_tokens: expected room for the longest sentence, 9"):
        batches_by_tokens([3, 9], 8)
    with pytest.raises(ValueError, match="lengths: expected at least one sentence, got none"):
        batches_by_tokens([], 8)
    with pytest.raises(ValueError, match="sentences: expected sentences of at least one token"):
        pad([[3], []])
    with pytest.raises(ValueError, match=r"sentences: expected .* got none"):
        pad([])
    with pytest.raises(ValueError, match="sentences: expected whole numbers, got fractions"):
        pad([[1.5, 2.0]])


# --- Pairs of sentences -----------------------------------------------------------------------


def test_a_batch_holds_the_sentences_asked_for():
    source, target = CORPUS.batch([1, 2])
    assert source.tolist() == [[7, EOS, 0, 0], [8, 9, 10, EOS]]
    assert target.tolist() == [[BOS, 4, 4, EOS], [BOS, 3, EOS, 0]]
    assert len(CORPUS) == 5


def test_the_length_of_a_pair_is_the_longer_of_two():
    assert CORPUS.lengths == [3, 4, 4, 3, 3]


def test_labels_are_the_target_words_after_the_first():
    assert CORPUS.labels([0]) == 2
    assert CORPUS.labels([1, 4]) == 3 + 1
    source, target = CORPUS.batch(range(5))
    assert CORPUS.labels(range(5)) == int((target[:, 1:] != 0).sum())
    assert len(source) == 5


def test_turned_back_a_batch_is_that_of_the_other_direction():
    other = Corpus([t[1:] for t in TARGET], [[BOS, *s] for s in SOURCE])
    for numbers in ([0], [1, 4], range(5)):
        for mine, theirs in zip(
            CORPUS.batch(numbers, back=True), other.batch(numbers), strict=True
        ):
            assert torch.equal(mine, theirs)
        assert CORPUS.labels(numbers, back=True) == other.labels(numbers)


def test_an_epoch_has_each_sentence_once_in_batches_that_are_not_too_large():
    batches = CORPUS.epoch(0, 8, seed=1)
    assert sorted(number for batch in batches for number in batch) == [0, 1, 2, 3, 4]
    assert all(max(CORPUS.lengths[n] for n in batch) * len(batch) <= 8 for batch in batches)


def test_epochs_and_seeds_have_orders_of_their_own():
    many = Corpus([[3, EOS]] * 60, [[BOS, 3, EOS]] * 60)
    orders = [many.epoch(epoch, 9, seed) for epoch in (0, 1) for seed in (0, 1)]
    assert all(one != other for i, one in enumerate(orders) for other in orders[:i])
    assert many.epoch(1, 9, 0) == orders[2]
    torch.manual_seed(3)  # other random numbers do not matter
    assert many.epoch(1, 9, 0) == orders[2]


def test_the_stream_goes_through_epoch_after_epoch():
    first, second = CORPUS.epoch(0, 8, 7), CORPUS.epoch(1, 8, 7)
    found = list(islice(CORPUS.stream(8, 7), len(first) + len(second)))
    assert [batch for batch, _ in found] == first + second
    places = [Cursor(0, done + 1) for done in range(len(first))]
    assert [place for _, place in found] == places + [Cursor(1, n + 1) for n in range(len(second))]


def test_the_stream_goes_on_from_any_place_as_if_it_had_not_stopped():
    whole = list(islice(CORPUS.stream(8, 7), 12))
    for done, (_, place) in enumerate(whole[:-1], start=1):
        rest = list(islice(CORPUS.stream(8, 7, place), 12 - done))
        assert rest == whole[done:]


def test_the_fingerprint_knows_the_sentences_and_their_order():
    same = Corpus([tuple(s) for s in SOURCE], [tuple(t) for t in TARGET])
    assert same.fingerprint() == CORPUS.fingerprint() == "54d0365978136bd9"
    others = [
        Corpus(SOURCE[::-1], TARGET),
        Corpus(SOURCE, TARGET[::-1]),
        Corpus(SOURCE[:4], TARGET[:4]),
        Corpus([[5, 6], [EOS, 7, EOS], *SOURCE[2:]], TARGET),
    ]
    assert len({CORPUS.fingerprint(), *(other.fingerprint() for other in others)}) == 5


@pytest.mark.parametrize(("source", "target", "got"), [([[3]], [], "1 and 0"), ([], [], "0 and 0")])
def test_sources_need_targets(source, target, got):
    message = f"^corpus: expected as many sources as targets, got {got}; each pair needs both$"
    with pytest.raises(ValueError, match=message):
        Corpus(source, target)


# --- Data by name -----------------------------------------------------------------------------


def test_the_phrasebook_has_vocabularies_of_its_training_sentences_alone():
    data = load_data("phrasebook", count=200, seed=4)
    assert data.training == [(pair.german, pair.english) for pair in sentence_pairs(200, seed=4)]
    for side, words in enumerate((data.source, data.target)):
        assert set(words.words[3:]) == {w for pair in data.training for w in pair[side].split()}
        for pair in data.training:
            assert words.decode(words.encode(pair[side])) == pair[side]


def test_the_phrasebook_is_tested_with_held_out_sentences():
    assert phrasebook_test(30) == sentence_pairs(30, seed=1, held_out=True)
    known = {german for german, _ in load_data("phrasebook", count=1000).training}
    assert not known & {pair.german for pair in phrasebook_test(30)}


def test_unknown_data_and_unknown_options_are_refused():
    assert set(SOURCES) == {"phrasebook", "multi30k"}
    with pytest.raises(
        ValueError, match=r"^data.name: expected 'phrasebook' or 'multi30k', got 'bible'"
    ):
        load_data("bible")
    message = r"^\[data\] of phrasebook: expected 'count' or 'seed', got 'size'; choose one"
    with pytest.raises(ValueError, match=message):
        load_data("phrasebook", count=5, size=3)
    with pytest.raises(ValueError, match=r"^count: expected a whole number of at least 1, got 0"):
        load_data("phrasebook", count=0)
