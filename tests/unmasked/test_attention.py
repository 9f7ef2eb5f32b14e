import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from helpers import DEVICES, difference
from unmasked.attention import (
    KeyValueCache,
    MultiHeadAttention,
    additive_attention,
    attention,
    attention_weights,
    masked_softmax,
)
from unmasked.masks import causal_mask, length_mask

TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.bfloat16: 4e-2,
    torch.float16: 4e-3,
}
sizes = st.integers(1, 6)


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


@given(sizes, sizes, sizes, sizes, sizes, st.randoms(use_true_random=False))
def test_equals_the_sum_written_out_by_hand(batch, n_heads, queries, keys, width, random):
    torch.manual_seed(random.randint(0, 1000))
    q, k, v = heads(batch, n_heads, queries, keys, width)
    mask = torch.rand(batch, n_heads, queries, keys) < 0.6
    expected = by_hand(q, k, v, mask)
    assert difference(attention(q, k, v, mask), expected) < 1e-12
    output, weights = with_weights(q, k, v, mask)
    assert difference(output, expected) < 1e-12
    sees = mask.any(-1)
    assert difference(weights.sum(-1), sees.double()) < 1e-12
    assert weights[~mask].eq(0).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("collect", [False, True])
def test_nothing_attends_to_nothing(dtype, collect, device):
    q, k, v = heads(2, 2, 4, 5, 8, dtype, device)
    mask = torch.ones(2, 1, 4, 5, dtype=torch.bool, device=device)
    mask[0] = False  # a whole sentence of padding
    mask[1, :, 2] = False  # one lonely query
    maps = [] if collect else None
    output = attention(q, k, v, mask, maps=maps)
    assert output[0].eq(0).all()
    assert output[1, :, 2].eq(0).all()
    assert output[1, :, 0].ne(0).any()
    if collect:
        assert maps[0][0].eq(0).all()
        assert maps[0][1, :, 2].eq(0).all()
    output.float().sum().backward()
    for tensor in (q, k, v):
        assert tensor.grad.isfinite().all()
        assert tensor.grad[0].eq(0).all()
        assert tensor.grad[1].ne(0).any()


def test_float16_survives_scores_that_a_plain_product_would_not():
    q = k = torch.full((1, 1, 2, 64), 60.0, dtype=torch.float16)  # q · k = 230,400 > 65,504
    v = torch.randn(1, 1, 2, 64, dtype=torch.float16)
    assert (q @ k.transpose(-1, -2)).isinf().all()
    output, weights = with_weights(q, k, v, causal_mask(2))
    assert output.isfinite().all()
    assert weights[0, 0, 1].tolist() == [0.5, 0.5]


def test_float16_scores_beyond_its_range_give_the_same_either_way():
    q = torch.full((1, 1, 2, 64), 100.0, dtype=torch.float16)  # scores of 80,000
    v = torch.randn(1, 1, 2, 64).half()
    output, weights = with_weights(q, q, v)
    assert weights.dtype == torch.float16
    assert difference(output, attention(q, q, v)) < 4e-3
    with torch.autocast("cpu", torch.float16):
        assert attention(q, q, v, maps=[]).isfinite().all()


@pytest.mark.parametrize("mask", [torch.tensor(True), torch.tensor([True, True, False])])
def test_masks_of_low_rank_broadcast_too(mask):
    q, k, v = heads(2, 2, 3, 3, 4)
    expected = by_hand(q, k, v, mask.expand(2, 2, 3, 3))
    assert difference(attention(q, k, v, mask), expected) < 1e-12
    assert difference(attention(q, k, v, mask, maps=[]), expected) < 1e-12


def test_the_scale_can_be_replaced():
    q, k, v = heads(1, 1, 3, 3, 4)
    weights = (q @ k.transpose(-1, -2)).softmax(-1)
    for maps in (None, []):
        output = attention(q, k, v, scale=1.0, maps=maps)
        assert difference(output, weights @ v) < 1e-12
    assert difference(maps[0], weights) < 1e-12
    assert difference(attention_weights(q, k, scale=1.0), weights) < 1e-12


def test_the_weights_alone_are_those_that_are_collected():
    q, k, v = heads(2, 2, 3, 5, 4)
    mask = length_mask(torch.tensor([5, 2]), 5)
    output, weights = with_weights(q, k, v, mask)
    assert torch.equal(attention_weights(q, k, mask), weights)
    assert difference(output, weights @ v) < 1e-12


def test_dropout_falls_on_weights_and_leaves_those_that_are_collected():
    q, k, v = heads(2, 2, 3, 4, 8)
    plain, weights = with_weights(q, k, v)
    dropped, same = with_weights(q, k, v, dropout=0.5)
    assert torch.equal(weights, same)
    assert not torch.equal(plain, dropped)
    mean = torch.stack([attention(q, k, v, dropout=0.5) for _ in range(4000)]).mean(0)
    assert difference(mean, plain) < 0.15


def test_numpy_walkthrough_example():
    """Four word vectors, seed 42: what its attention is, to eight digits."""
    words = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
    draws = np.random.RandomState(42)
    projections = [draws.randint(3, size=(3, 3)) for _ in range(3)]
    q, k, v = (torch.tensor(words @ projection).double() for projection in projections)
    expected = [
        [0.98522025, 1.74174051, 0.75652026],
        [0.90965265, 1.40965265, 0.5],
        [0.99851226, 1.75849334, 0.75998108],
        [0.99560386, 1.90407309, 0.90846923],
    ]
    assert difference(attention(q, k, v), torch.tensor(expected, dtype=torch.float64)) < 1e-8


def test_without_a_mask_masked_softmax_is_softmax():
    scores = torch.randn(3, 4)
    assert torch.equal(masked_softmax(scores), scores.softmax(-1))


def test_masked_softmax_leaves_its_input_alone():
    scores = torch.randn(2, 3, 3)
    before = scores.clone()
    masked_softmax(scores, causal_mask(3))
    assert torch.equal(scores, before)


def test_additive_attention_by_hand():
    q, k, v = heads(2, 1, 3, 4, 5)
    vector, mask = torch.randn(5, dtype=torch.float64), causal_mask(3, past=1)
    output, weights = with_weights(q, k, v, vector, mask, call=additive_attention)
    for b in range(2):
        for i in range(3):
            scores = torch.stack(
                [torch.tanh(q[b, 0, i] + k[b, 0, j]) @ vector for j in range(i + 2)]
            )
            assert difference(weights[b, 0, i, : i + 2], scores.softmax(0)) < 1e-12
            assert weights[b, 0, i, i + 2 :].eq(0).all()
    assert difference(output, weights @ v) < 1e-12
    assert torch.equal(additive_attention(q, k, v, vector, mask), output)


def test_additive_attention_to_nothing_is_zero():
    q, k, v = heads(1, 1, 2, 3, 4)
    output = additive_attention(q, k, v, torch.ones(4).double(), torch.zeros(2, 3).bool())
    assert output.eq(0).all()


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


def test_value_defaults_to_key_and_key_to_query():
    module = MultiHeadAttention(8, 2)
    x, memory = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
    assert torch.equal(module(x), module(x, key=x, value=x))
    assert torch.equal(module(x, key=memory), module(x, key=memory, value=memory))


def test_what_can_be_swapped_by_mistake_is_keyword_only():
    module = MultiHeadAttention(8, 2)
    x = torch.randn(1, 3, 8)
    with pytest.raises(TypeError):
        module(x, x, x)


def test_without_positions_a_permutation_goes_through():
    module, order = MultiHeadAttention(8, 2).double(), torch.randperm(6)
    x = torch.randn(2, 6, 8).double()
    assert difference(module(x)[:, order], module(x[:, order])) < 1e-12


@pytest.mark.parametrize("device", DEVICES)
def test_module_dropout_only_while_training(device):
    module = MultiHeadAttention(8, 2, dropout=0.5).to(device)
    x = torch.randn(2, 3, 8, device=device)
    module.eval()
    assert torch.equal(module(x), module(x))
    module.train()
    assert not torch.equal(module(x), module(x))
    output, weights = with_weights(x, call=module)
    assert output.shape == (2, 3, 8)
    assert difference(weights.sum(-1), torch.ones(2, 2, 3, device=device)) < 1e-6


def test_maps_that_nobody_asks_for_are_not_computed(monkeypatch):
    calls = []
    real = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **k: (calls.append(1), real(*a, **k))[1]
    )
    module = nn.Sequential(MultiHeadAttention(8, 2))
    module(torch.randn(1, 3, 8))
    assert calls == [1]


@pytest.mark.parametrize("masked", [True, False])
def test_short_rows_of_bfloat16_are_computed_in_float32_where_a_gradient_is_wanted(
    monkeypatch, masked
):
    """On a CPU: there the kernel's own backward takes several times as long."""
    seen = []

    def kernel(query, *given, **options):
        seen.append(query.dtype)
        return original(query, *given, **options)

    original = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", kernel)
    q, k, v = (x.detach() for x in heads(2, 2, 5, 5, 4, torch.bfloat16))
    mask = causal_mask(5) if masked else None
    results = []
    wanted = q.clone().requires_grad_()
    for query in (wanted, q):
        with torch.autocast("cpu", torch.bfloat16):  # in which the kernel takes halves only
            results.append(attention(query, k, v, mask))
    assert seen == [torch.float32, torch.bfloat16]
    assert [x.dtype for x in results] == [torch.bfloat16] * 2
    assert difference(*results) < TOLERANCE[torch.bfloat16]
    results[0].sum().backward()
    assert wanted.grad.dtype == torch.bfloat16
    long = torch.randn(1, 1, 257, 4, dtype=torch.bfloat16, requires_grad=True)
    attention(long, long, long)
    assert seen[-1] == torch.bfloat16


def test_one_query_for_a_batch_of_keys_may_have_a_mask_for_each():
    query, key = torch.randn(1, 4, 2, 8), torch.randn(3, 4, 5, 8)
    mask = length_mask(torch.tensor([5, 3, 1]), 5)
    fused = attention(query, key, key, mask)
    explicit, _ = with_weights(query, key, key, mask)
    assert fused.shape == (3, 4, 2, 8)
    assert difference(fused, explicit) < 1e-6


# --- What is remembered ----------------------------------------------------------------------


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


def test_memory_is_taken_ahead_and_reused():
    cache = KeyValueCache(capacity=8)
    piece = torch.randn(1, 1, 1, 4)
    first, _ = cache.append(piece, piece)
    for _ in range(7):
        last, _ = cache.append(piece, piece)
    assert first.data_ptr() == last.data_ptr()
    grown, _ = cache.append(piece, piece)
    assert grown.data_ptr() != first.data_ptr()


def test_rows_can_be_dropped():
    keys = torch.randn(3, 1, 2, 4)
    cache = KeyValueCache(capacity=4)
    cache.append(keys, keys)
    cache.select(torch.tensor([True, False, True]))
    assert torch.equal(cache.read()[0], keys[[0, 2]])
    k, _ = cache.append(keys[[0, 2]], keys[[0, 2]])
    assert torch.equal(k, keys[[0, 2]].repeat(1, 1, 2, 1))


def test_an_empty_cache_has_no_rows_to_drop():
    cache = KeyValueCache()
    cache.select(torch.tensor([0]))
    assert cache.length == 0


def test_a_fixed_cache_projects_the_memory_once():
    module, memory = MultiHeadAttention(8, 2), torch.randn(1, 5, 8)
    cache, calls = KeyValueCache(fixed=True), []
    module.key.register_forward_hook(lambda *_: calls.append(1))
    x = torch.randn(1, 1, 8)
    for _ in range(3):
        assert torch.equal(module(x, key=memory, cache=cache), module(x, key=memory))
    assert len(calls) == 1 + 3  # once for the cache, three times without


def test_gradients_flow_through_what_is_remembered():
    keys = torch.randn(1, 2, 6, 4, dtype=torch.float64, requires_grad=True)
    cache = KeyValueCache(capacity=2)
    total = 0
    for time in range(6):
        k, v = cache.append(keys[:, :, time : time + 1], 2 * keys[:, :, time : time + 1])
        total = total + (k * v).sum()
    total.backward()
    times = torch.arange(6, 0, -1).double()[:, None]  # the first is part of six sums
    assert torch.allclose(keys.grad, 4 * keys.detach() * times)


def test_what_began_with_gradients_goes_on_without_them():
    keys = torch.randn(1, 1, 3, 4, requires_grad=True)
    cache = KeyValueCache(capacity=8)
    cache.append(keys, keys)
    with torch.no_grad():
        k, _ = cache.append(keys[:, :, :1], keys[:, :, :1])
    assert torch.equal(k, torch.cat([keys, keys[:, :, :1]], dim=2))


@pytest.mark.parametrize("batch", [1, 4])
def test_a_cache_of_other_sentences_is_refused(batch):
    attention_, cache = MultiHeadAttention(8, 2).eval(), KeyValueCache()
    with torch.no_grad():
        attention_(torch.randn(3, 2, 8), cache=cache)
        with pytest.raises(ValueError, match=f"cache: expected a batch of {batch}, got 3"):
            attention_(torch.randn(batch, 1, 8), cache=cache)
    assert cache.length == 2
