import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmasked import masks
from unmasked.masks import causal_mask, length_mask, padding_mask

TOKENS = torch.tensor([[5, 6, 7, 8, 0], [5, 6, 0, 0, 0]])


def test_padding_mask_marks_the_real_tokens():
    expected = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]).bool()[:, None, None]
    assert torch.equal(padding_mask(TOKENS), expected)


def test_padding_mask_for_another_padding_token():
    assert torch.equal(padding_mask(TOKENS, padding=5), (TOKENS != 5)[:, None, None])


@given(n=st.integers(1, 12), past=st.integers(0, 12))
def test_causal_mask_row_by_row(n, past):
    expected = [[key <= query + past for key in range(past + n)] for query in range(n)]
    assert causal_mask(n, past=past).tolist() == expected


@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_length_mask_one_length_a_row(lengths):
    expected = [[[[key < length for key in range(6)]]] for length in lengths]
    assert length_mask(torch.tensor(lengths), 6).tolist() == expected


def test_length_mask_one_length_a_query():
    mask = length_mask(torch.tensor([[1, 3], [2, 0]]), 3)
    assert mask.tolist() == [[[[1, 0, 0], [1, 1, 1]]], [[[1, 1, 0], [0, 0, 0]]]]


def test_lengths_from_one_to_n_are_the_causal_mask():
    assert torch.equal(length_mask(torch.arange(1, 6)[None], 5)[0, 0], causal_mask(5))


def test_lengths_and_padding_say_the_same():
    assert torch.equal(length_mask((TOKENS != 0).sum(1), 5), padding_mask(TOKENS))


def test_bridges_lead_there_and_back():
    mask = padding_mask(TOKENS) & causal_mask(5)
    assert torch.equal(masks.from_blocked(~mask), mask)
    assert torch.equal(masks.from_blocked(masks.from_blocked(mask)), mask)
    assert torch.equal(masks.from_ones(mask.int()), mask)
    assert torch.equal(masks.from_ones(mask.float()), mask)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        additive = masks.to_additive(mask, dtype)
        assert additive.dtype == dtype
        assert torch.equal(masks.from_additive(additive), mask)


def test_additive_masks_hold_zero_and_minus_infinity():
    assert masks.to_additive(torch.tensor([True, False])).tolist() == [0.0, -torch.inf]


@pytest.mark.parametrize("hidden", [-torch.inf, -1e9, -1e6, torch.finfo(torch.float16).min])
def test_additive_masks_of_others_are_understood(hidden):
    assert masks.from_additive(torch.tensor([0.0, hidden])).tolist() == [True, False]
