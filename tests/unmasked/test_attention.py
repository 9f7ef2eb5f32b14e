"""Attention is the sum written out, whichever way it is computed, and what it remembers."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from helpers import DEVICES, difference
from unmasked.attention import (
    KeyValueCache,
    MultiHeadAttention,
    additive_attention,
    attention,
    attention_weights,
)
from unmasked.masks import causal_mask, length_mask

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 4e-2, torch.float16: 4e-3}
sizes = st.integers(1, 5)
on_every_device = pytest.mark.parametrize("device", DEVICES)
in_every_precision = pytest.mark.parametrize("dtype", TOLERANCE)


def heads(batch, n_heads, queries, keys, width, dtype=torch.float64, device="cpu"):
    shapes = [(batch, n_heads, length, width) for length in (queries, keys, keys)]
    tensors = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    return [tensor.to(device, dtype).requires_grad_() for tensor in tensors]


def by_hand(query, key, value, mask):
    """Softmax written out, one query at a time, over the visible keys only."""
    output = torch.zeros(*query.shape[:-1], value.shape[-1], dtype=query.dtype)
    for at in np.ndindex(*query.shape[:-1]):
        seen = mask[at].nonzero()[:, 0]
        if len(seen):
            scores = key[at[:-1]][seen] @ query[at] / math.sqrt(query.shape[-1])
            weights = scores.exp() / scores.exp().sum()
            output[at] = weights @ value[at[:-1]][seen]
    return output


def with_weights(*given, call=attention, **options):
    maps = []
    output = call(*given, maps=maps, **options)
    (weights,) = maps
    return output, weights


def test_float16_scores_beyond_its_range_give_the_same_either_way():
    q = torch.full((1, 1, 2, 64), 100.0, dtype=torch.float16)  # scores of 80,000 > 65,504
    v, mask = torch.randn(1, 1, 2, 64).half(), causal_mask(2)
    output, weights = with_weights(q, q, v, mask)
    assert weights[0, 0, 1].tolist() == [0.5, 0.5]
    assert difference(output, attention(q, q, v, mask)) < 4e-3


@given(sizes, sizes, sizes, sizes, sizes, st.integers(0, 1000))
def test_equals_the_sum_written_out_by_hand(batch, n_heads, queries, keys, width, seed):
    torch.manual_seed(seed)
    q, k, v = heads(batch, n_heads, queries, keys, width)
    mask = torch.rand(batch, n_heads, queries, keys) < 0.6
    expected = by_hand(q, k, v, mask)
    assert difference(attention(q, k, v, mask), expected) < 1e-12
    output, weights = with_weights(q, k, v, mask)
    assert difference(output, expected) < 1e-12
    assert difference(weights.sum(-1), mask.any(-1).double()) < 1e-12
    assert weights[~mask].eq(0).all()


def test_the_numbers_of_the_numpy_walkthrough():
    """Four word vectors, seed 42."""
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


@on_every_device
@in_every_precision
@pytest.mark.parametrize("masked", [False, True])
def test_with_and_without_weights_the_same_numbers_and_gradients(dtype, masked, device):
    q, k, v = heads(3, 2, 5, 7, 8, dtype, device)
    mask = length_mask(torch.tensor([7, 3, 1], device=device), 7) if masked else None
    output, _ = with_weights(q, k, v, mask)
    gradients = torch.autograd.grad(output.float().square().sum(), (q, k, v))
    fused = attention(q, k, v, mask)
    fused_gradients = torch.autograd.grad(fused.float().square().sum(), (q, k, v))
    assert difference(output, fused) < TOLERANCE[dtype]
    for a, b in zip(gradients, fused_gradients, strict=True):
        assert difference(a, b) < 10 * TOLERANCE[dtype]


@on_every_device
@in_every_precision
@pytest.mark.parametrize("collect", [False, True])
def test_nothing_attends_to_nothing(dtype, collect, device):
    q, k, v = heads(2, 2, 4, 5, 8, dtype, device)
    mask = torch.ones(2, 1, 4, 5, dtype=torch.bool, device=device)
    mask[0] = False  # a whole sentence of padding
    mask[1, :, 2] = False  # one lonely query
    maps = [] if collect else None
    output = attention(q, k, v, mask, maps=maps)
    for found in (output, *(maps or [])):
        assert found[0].eq(0).all()
        assert found[1, :, 2].eq(0).all()
        assert found[1, :, 0].ne(0).any()
    output.float().sum().backward()
    for tensor in (q, k, v):
        assert tensor.grad.isfinite().all()
        assert tensor.grad[0].eq(0).all()


@pytest.mark.parametrize(
    ("mask", "batch"),
    [
        (torch.tensor([True, True, False]), 2),
        (length_mask(torch.tensor([3, 1]), 3), 1),  # one query for a batch of keys
    ],
)
def test_masks_and_queries_broadcast(mask, batch):
    q, k, v = heads(2, 2, 3, 3, 4)
    q = q[:batch].expand(2, -1, -1, -1)
    expected = by_hand(q, k, v, mask.expand(2, 2, 3, 3))
    assert difference(attention(q[:batch], k, v, mask), expected) < 1e-12
    assert difference(attention(q[:batch], k, v, mask, maps=[]), expected) < 1e-12


def test_the_scale_can_be_replaced_and_the_weights_be_had_alone():
    q, k, v = heads(2, 2, 3, 5, 4)
    expected = (q @ k.transpose(-1, -2)).softmax(-1)
    output, weights = with_weights(q, k, v, scale=1.0)
    assert difference(weights, expected) < 1e-12
    assert difference(attention_weights(q, k, scale=1.0), expected) < 1e-12
    assert difference(output, expected @ v) < 1e-12
    assert difference(attention(q, k, v, scale=1.0), expected @ v) < 1e-12


def test_dropout_falls_on_weights_and_leaves_those_that_are_collected():
    q, k, v = heads(2, 2, 3, 4, 8)
    plain, weights = with_weights(q, k, v)
    dropped, same = with_weights(q, k, v, dropout=0.5)
    assert torch.equal(weights, same)
    assert not torch.equal(plain, dropped)
    mean = torch.stack([attention(q, k, v, dropout=0.5) for _ in range(1000)]).mean(0)
    assert difference(mean, plain) < 0.2


def test_additive_attention_by_hand():
    q, k, v = heads(2, 1, 3, 4, 5)
    vector, mask = torch.randn(5, dtype=torch.float64), causal_mask(3, past=1)
    mask[0] = False
    output, weights = with_weights(q, k, v, vector, mask, call=additive_attention)
    assert weights[:, :, 0].eq(0).all()
    for b in range(2):
        for i in range(1, 3):
            scores = torch.tanh(q[b, 0, i] + k[b, 0, : i + 2]) @ vector
            assert difference(weights[b, 0, i, : i + 2], scores.softmax(0)) < 1e-12
            assert weights[b, 0, i, i + 2 :].eq(0).all()
    assert difference(output, weights @ v) < 1e-12
    assert torch.equal(additive_attention(q, k, v, vector, mask), output)


# --- Many heads -------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_multi_head_equals_a_loop_over_heads(bias):
    module = MultiHeadAttention(12, 3, bias=bias)
    query, key, value = torch.randn(2, 4, 12), torch.randn(2, 5, 12), torch.randn(2, 5, 12)
    one_by_one, maps = [], []
    for head in range(3):
        rows = slice(4 * head, 4 * head + 4)
        q, k, v = (
            F.linear(x, part.weight[rows], part.bias[rows] if bias else None)
            for x, part in ((query, module.query), (key, module.key), (value, module.value))
        )
        maps.append((q @ k.transpose(1, 2) / 2).softmax(-1))
        one_by_one.append(maps[-1] @ v)
    expected = module.output(torch.cat(one_by_one, dim=-1))
    assert difference(module(query, key=key, value=value), expected) < 1e-5
    output, weights = with_weights(query, key=key, value=value, call=module)
    assert difference(output, expected) < 1e-5
    assert difference(weights, torch.stack(maps, dim=1)) < 1e-6
    assert torch.equal(module(query), module(query, key=query, value=query))
    assert torch.equal(module(query, key=key), module(query, key=key, value=key))


def test_maps_that_nobody_asks_for_are_not_computed(monkeypatch):
    """But PyTorch's fused kernel is called."""
    seen, original = [], F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *x, **o: seen.append(1) or original(*x, **o)
    )
    MultiHeadAttention(8, 2)(torch.randn(1, 3, 8))
    assert seen == [1]


# --- What is remembered -----------------------------------------------------------------------


def test_appending_piece_by_piece_keeps_everything_in_order():
    keys, values = torch.randn(2, 3, 50, 4), torch.randn(2, 3, 50, 4)
    cache, start = KeyValueCache(capacity=3), 0
    for length in (1, 2, 1, 7, 20, 19):
        piece = slice(start, start + length)
        k, v = cache.append(keys[:, :, piece], values[:, :, piece])
        start += length
        assert torch.equal(k, keys[:, :, :start])
        assert torch.equal(v, values[:, :, :start])
    assert cache.length == 50
    assert cache.keys.shape[2] == 62  # the room at least doubles


def test_a_fixed_cache_projects_the_memory_once():
    module, memory = MultiHeadAttention(8, 2), torch.randn(1, 5, 8)
    cache, calls = KeyValueCache(fixed=True), []
    module.key.register_forward_hook(lambda *_: calls.append(1))
    x = torch.randn(1, 1, 8)
    for _ in range(3):
        assert torch.equal(module(x, key=memory, cache=cache), module(x, key=memory))
    assert len(calls) == 1 + 3  # once for the cache, three times without
