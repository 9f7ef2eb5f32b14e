import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmasked.data.corpus import batches_by_tokens, pad


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
