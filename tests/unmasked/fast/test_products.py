"""Weights in another order give the same products."""

import pytest
import torch
from torch.nn import functional as F

from helpers import DEVICES, difference
from unmasked.fast import products
from unmasked.fast.products import product

TWICE = pytest.mark.parametrize("onednn", [True, False])
SHAPES = pytest.mark.parametrize("shape", [(12, 8), (8, 12), (8, 8)])


@TWICE
@SHAPES
@pytest.mark.parametrize("rows", [1, 2, 40])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("device", DEVICES)
def test_a_product_is_that_of_linear(monkeypatch, device, bias, rows, shape, onednn):
    monkeypatch.setattr(products, "SMALL", 0)
    if not onednn:
        monkeypatch.setattr(products, "has_onednn", lambda: False)
    weight = torch.randn(shape, device=device)
    added = torch.randn(shape[0], device=device) if bias else None
    multiply = product(weight, added, rows)
    for x in (torch.randn(rows, 1, shape[1]), torch.randn(3, 2, shape[1])):
        x = x.to(device)
        assert difference(multiply(x), F.linear(x, weight, added)) < 1e-5


def test_only_large_matrices_are_laid_out_in_blocks():
    small, large = torch.randn(256, 256), torch.randn(768, 256)
    assert getattr(product(small, None, 4), "func", None) is F.linear
    assert getattr(product(large, None, 4), "func", None) is not F.linear


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_formats_are_multiplied_as_ever(dtype):
    weight, x = torch.randn(12, 8, dtype=dtype), torch.randn(5, 8, dtype=dtype)
    assert torch.equal(product(weight, None, 5)(x), F.linear(x, weight))


def test_without_its_operations_there_is_no_onednn(monkeypatch):
    monkeypatch.setattr(products, "onednn", object())
    assert not products.has_onednn()
