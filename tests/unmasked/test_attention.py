"""Attention equals the sum written out by hand, whichever way it is computed."""

import math
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from helpers import DEVICES, difference
from unmasked.attention import MultiHeadAttention, additive_attention, attention, attention_weights
from unmasked.masks import causal_mask, length_mask

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 4e-2, torch.float16: 4e-3}
sizes = st.integers(1, 5)


def heads(batch, n_heads, queries, keys, width, dtype=torch.float64, device="cpu"):
    tensors = [torch.randn(batch, n_heads, n, width).double() for n in (queries, keys, keys)]
    return [tensor.to(device, dtype).requires_grad_() for tensor in tensors]


def by_hand(query, key, value, mask, score=lambda q, k: k @ q / math.sqrt(len(q))):
    """Computes the softmax of one query at a time, over the visible keys only."""
    output = torch.zeros(*query.shape[:-1], value.shape[-1], dtype=query.dtype)
    for at in np.ndindex(*query.shape[:-1]):
        seen = mask[at].nonzero()[:, 0]
        if len(seen):
            weights = score(query[at], key[at[:-1]][seen]).exp()
            output[at] = weights / weights.sum() @ value[at[:-1]][seen]
    return output


def with_weights(*given, call=attention, **options):
    maps = []
    return call(*given, maps=maps, **options), *maps


def test_float16_scores_beyond_its_range_give_the_same_either_way():
    for sentences, n in ((1, 2), (2, 1)):  # one query of each sentence goes another way
        q, k = (torch.full((sentences, 1, each, 64), 100.0).half() for each in (n, 2))
        v, mask = torch.randn(sentences, 1, 2, 64).half(), causal_mask(n, past=2 - n)
        output, weights = with_weights(q, k, v, mask)  # of scores of 80,000 > 65,504
        assert weights[:, 0, -1].eq(0.5).all()
        assert difference(output, attention(q, k, v, mask)) < 4e-3


@given(sizes, sizes, sizes, sizes, sizes, st.integers(0, 1000))
def test_equals_the_sum_written_out_by_hand(batch, n_heads, queries, keys, width, seed):
    torch.manual_seed(seed)
    q, k, v = heads(batch, n_heads, queries, keys, width)
    full = (batch, n_heads, queries, keys)
    mask = torch.rand([1 if seed >> at & 1 else size for at, size in enumerate(full)]) < 0.6
    q = q[:1] if seed % 3 == 0 else q  # for a batch of keys
    expected = by_hand(q.expand(batch, -1, -1, -1), k, v, mask.expand(full))
    assert difference(attention(q, k, v, mask), expected) < 1e-12
    output, weights = with_weights(q, k, v, mask)
    assert difference(output, expected) < 1e-12
    assert difference(weights.sum(-1), mask.expand(full).any(-1).double()) < 1e-12
    assert weights[~mask.expand(full)].eq(0).all()


def test_the_numbers_of_the_numpy_walkthrough():
    words = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
    draws = np.random.RandomState(42)
    projections = [draws.randint(3, size=(3, 3)) for _ in range(3)]
    expected = [
        [0.98522025, 1.74174051, 0.75652026],
        [0.90965265, 1.40965265, 0.5],
        [0.99851226, 1.75849334, 0.75998108],
        [0.99560386, 1.90407309, 0.90846923],
    ]
    found = attention(*(torch.tensor(words @ projection).double() for projection in projections))
    assert difference(found, torch.tensor(expected, dtype=torch.float64)) < 1e-8


def test_maps_that_nobody_asks_for_are_not_computed():
    with patch.object(F, "scaled_dot_product_attention", return_value=torch.ones(1, 2, 3, 4)):
        module = MultiHeadAttention(8, 2)
        assert torch.equal(module(torch.randn(1, 3, 8)), module.output(torch.ones(1, 3, 8)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_with_and_without_weights_the_same_numbers_and_gradients(dtype, device):
    q, k, v = heads(3, 2, 5, 7, 8, dtype, device)
    mask = length_mask(torch.tensor([7, 3, 0], device=device), 7).repeat(1, 1, 5, 1)
    mask[0, :, 2] = False  # one lonely query, and a whole sentence of padding
    output, weights = with_weights(q, k, v, mask)
    fused = attention(q, k, v, mask)
    for found in (output, fused, weights):
        assert found[0, :, 2].eq(0).all()
        assert found[2].eq(0).all()
    assert difference(output, fused) < TOLERANCE[dtype]
    gradients = [torch.autograd.grad(x.float().square().sum(), (q, k, v)) for x in (output, fused)]
    for a, b in zip(*gradients, strict=True):
        assert difference(a, b) < 10 * TOLERANCE[dtype]
        assert a[2].eq(0).all()
        assert b[2].eq(0).all()


def test_the_scale_can_be_replaced_and_the_weights_be_had_alone():
    q, k, v = heads(2, 2, 3, 5, 4)
    expected = (q @ k.transpose(-1, -2)).softmax(-1)
    output, weights = with_weights(q, k, v, scale=1.0)
    for found in (weights, attention_weights(q, k, scale=1.0)):
        assert difference(found, expected) < 1e-12
    for found in (output, attention(q, k, v, scale=1.0)):
        assert difference(found, expected @ v) < 1e-12


def test_dropout_falls_on_weights_and_leaves_those_that_are_collected():
    q, k, v = heads(2, 2, 3, 4, 8)
    plain, weights = with_weights(q, k, v)
    dropped, same = with_weights(q, k, v, dropout=0.5)
    assert torch.equal(weights, same)
    assert not torch.equal(plain, dropped)


def test_additive_attention_by_hand():
    q, k, v = heads(2, 1, 3, 4, 5)
    vector, mask = torch.randn(5).double(), causal_mask(3, past=1).repeat(2, 1, 1, 1)
    mask[:, :, 0] = False
    output, weights = with_weights(q, k, v, vector, mask, call=additive_attention)
    expected = by_hand(q, k, v, mask, lambda query, keys: torch.tanh(query + keys) @ vector)
    assert difference(output, expected) < 1e-12
    assert difference(output, weights @ v) < 1e-12
    assert torch.equal(additive_attention(q, k, v, vector, mask), output)
