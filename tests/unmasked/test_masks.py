import torch
from hypothesis import given
from hypothesis import strategies as st

from unmasked import masks
from unmasked.masks import causal_mask, length_mask, padding_mask

TOKENS = torch.tensor([[5, 6, 7, 8, 0], [5, 6, 0, 0, 0]])


def test_padding_mask_marks_the_real_tokens():
    assert padding_mask(TOKENS).int().tolist() == [[[[1, 1, 1, 1, 0]]], [[[1, 1, 0, 0, 0]]]]
    assert padding_mask(TOKENS, padding=5).int().tolist() == [[[[0, 1, 1, 1, 1]]]] * 2


@given(n=st.integers(1, 12), past=st.integers(0, 12))
def test_causal_mask_row_by_row(n, past):
    expected = [[key <= query + past for key in range(past + n)] for query in range(n)]
    assert causal_mask(n, past=past).tolist() == expected


@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_length_mask_one_length_a_row_or_one_a_query(lengths):
    expected = [[key < length for key in range(6)] for length in lengths]
    assert length_mask(torch.tensor(lengths), 6)[:, 0, 0].tolist() == expected
    assert length_mask(torch.tensor([lengths, lengths]), 6).tolist() == [[expected]] * 2


def test_bridges_lead_there_and_back():
    mask = padding_mask(TOKENS) & causal_mask(5)
    for back in (masks.from_blocked(~mask), *map(masks.from_ones, (mask.int(), mask.float()))):
        assert torch.equal(back, mask)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        additive = masks.to_additive(mask, dtype)
        assert additive.dtype == dtype
        assert torch.equal(masks.from_additive(additive), mask)
    assert masks.to_additive(torch.tensor([True, False])).tolist() == [0.0, -torch.inf]
    hidden = torch.tensor([-torch.inf, -1e9, -1e6, -65504])  # as others write it
    assert not masks.from_additive(hidden).any()
