"""Weights in another layout give the same products."""

import copy
from unittest.mock import Mock

import pytest
import torch
from torch.nn import functional as F

from helpers import copier, difference, ragged
from unmasked import layers, products
from unmasked.layers import KEPT
from unmasked.products import product
from unmasked.search import beam, greedy, sample


@pytest.mark.parametrize("way", ["mkl", "onednn", "neither"])
@pytest.mark.parametrize("shape", [(300, 200), (7, 13)])
@pytest.mark.parametrize("rows", [1, 2, 40])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("threads", [(1, 1), (1, 2), (2, 1)])
def test_a_product_is_that_of_linear(monkeypatch, threads, bias, rows, shape, way):
    monkeypatch.setattr(products, "SMALL", 0)
    monkeypatch.setattr(products, "made_by_intel", lambda: way == "mkl")
    if way == "neither":
        monkeypatch.setattr(products, "has_onednn", False)
    weight, added = torch.randn(shape), torch.randn(shape[0]) if bias else None
    several = [(left, 1, shape[1]) for left in (1, 2, 3, 7, 16, 39, 40, 41, 200)]
    several += [(3, 2, shape[1]), (rows, shape[1])]
    for vector in {False, rows == 1}:
        torch.set_num_threads(threads[0])
        multiply = product(weight, added, rows, vector=vector)
        torch.set_num_threads(threads[1])
        for size in [shape[1:]] if vector else several:
            x = torch.randn(size)
            assert difference(multiply(x), F.linear(x, weight, added)) < 1e-4


CHANGES = {  # PyTorch's version counter notices the first, but few of the others
    "in place": lambda weight: weight.detach().mul_(-1),
    "another data": lambda weight: setattr(weight, "data", -weight.data),
    "one row": lambda weight: weight.data[5].zero_(),
    "columns change places": lambda weight: weight.data.copy_(weight.data.roll(1, 1)),
    "by NumPy": lambda weight: weight.detach().numpy().__imul__(-1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("lengths", [[5], [6, 3, 1]])
def test_a_layout_is_kept_until_its_weights_change(monkeypatch, change, lengths):
    model, source = copy.deepcopy(copier()).float(), ragged(lengths, 12)
    made = Mock(wraps=products.product)
    monkeypatch.setattr(layers, "product", made)
    first = greedy(model, source, 9)
    assert made.call_count >= 5
    made.reset_mock()
    assert torch.equal(greedy(model, source, 9), first)
    assert torch.equal(sample(model, source, max_new_tokens=9, top_k=1), first)
    made.assert_not_called()
    for weight in (model.generator.weight, model.decoder.layers[0].feed_forward.expand.weight):
        change(weight)
        made.reset_mock()
        slow = [beam(model, source, w, 9, use_cache=False).tokens for w in (1, 3)]
        for width, expected in zip((1, 3), slow, strict=True):
            assert torch.equal(beam(model, source, width, 9).tokens, expected)
        made.assert_called()


def test_nor_beyond_its_biases_or_its_type():
    model, source = copy.deepcopy(copier()).float(), ragged([5], 12)

    def without_biases():
        for part in model.decoder.modules():
            part.bias = None

    for change in (without_biases, model.half, model.double):
        greedy(model, source, 9)
        change()
        assert torch.equal(greedy(model, source, 9), greedy(model, source, 9, use_cache=False))
        assert change == without_biases or not any(part in KEPT for part in model.modules())
