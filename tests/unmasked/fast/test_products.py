"""Weights in another order give the same products."""

import pytest
import torch
from torch.nn import functional as F

from helpers import DEVICES, difference
from unmasked.fast import products
from unmasked.fast.products import product

MKL = pytest.mark.skipif(not products.has_mkl(), reason="this PyTorch has no MKL")
ONEDNN = pytest.mark.skipif(not products.has_onednn(), reason="this PyTorch has no oneDNN")


@pytest.mark.parametrize("way", ["mkl", "onednn", "neither"])
@pytest.mark.parametrize("shape", [(12, 8), (8, 12)])
@pytest.mark.parametrize("rows", [1, 2, 40])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("device", DEVICES)
def test_a_product_is_that_of_linear(monkeypatch, device, bias, rows, shape, way):
    monkeypatch.setattr(products, "SMALL", 0)
    monkeypatch.setattr(products, "made_by_intel", lambda: way == "mkl")
    if way == "neither":
        monkeypatch.setattr(products, "has_onednn", lambda: False)
    weight = torch.randn(shape, device=device)
    added = torch.randn(shape[0], device=device) if bias else None
    multiply = product(weight, added, rows)
    inputs = shape[1]
    several = torch.randn(rows, 1, inputs), torch.randn(3, 2, inputs), torch.randn(rows, inputs)
    for x in several if rows > 1 else [torch.randn(inputs)]:
        x = x.to(device)
        assert difference(multiply(x), F.linear(x, weight, added)) < 1e-5


@MKL
@pytest.mark.parametrize("threads", [(1, 1), (2, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize("rows", [2, 40])
@pytest.mark.parametrize("shape", [(300, 200), (13, 7)])
def test_what_is_packed_for_some_rows_is_right_for_any_other_number(shape, rows, threads):
    """Sentences end, and fewer rows are left; and threads may come and go."""
    weight, bias = torch.randn(shape), torch.randn(shape[0])
    torch.set_num_threads(threads[0])
    multiply = products.packed(weight, bias, rows)
    torch.set_num_threads(threads[1])
    for left in (1, 2, 3, 7, 16, 39, 40, 41, 200):
        x = torch.randn(left, 1, shape[1])
        assert difference(multiply(x), F.linear(x, weight, bias)) < 1e-4


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_formats_are_multiplied_as_ever(dtype):
    weight, x = torch.randn(12, 8, dtype=dtype), torch.randn(5, 8, dtype=dtype)
    assert torch.equal(product(weight, None, 5)(x), F.linear(x, weight))


@pytest.mark.parametrize("library", ["mkl", "onednn"])
def test_a_library_without_its_operations_is_not_there(monkeypatch, library):
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(products, library, object())
    assert not getattr(products, f"has_{library}")()


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("intel", [True, False])
def test_who_made_the_processor(monkeypatch, tmp_path, intel, listed):
    name = "GenuineIntel" if intel else "AuthenticAMD"
    path = tmp_path / "cpuinfo"
    if listed:
        path.write_text(f"vendor_id\t: {name}\nmodel name\t: QEMU Virtual CPU\n")
    monkeypatch.setattr(products, "LIST", path)
    monkeypatch.setattr(products.platform, "processor", lambda: "" if listed else f"64, {name}")
    assert products.made_by_intel.__wrapped__() is intel


@ONEDNN
@pytest.mark.parametrize(("size", "in_blocks"), [(512, False), (513, True)])
def test_several_rows_of_another_processor_need_blocks_of_large_matrices_only(
    monkeypatch, size, in_blocks
):
    monkeypatch.setattr(products, "made_by_intel", lambda: False)
    multiply = product(torch.randn(size, 256), None, 4)
    assert (getattr(multiply, "func", None) is not F.linear) == in_blocks


@pytest.mark.parametrize(
    ("intel", "shape", "stride"),
    [
        (True, (300, 200), (200, 1)),  # as they are
        (False, (300, 200), (1, 300)),  # by input, where there are more outputs
        (False, (200, 300), (300, 1)),
    ],
)
def test_for_one_row_the_weights_are_laid_out_as_the_processor_likes_them(
    monkeypatch, intel, shape, stride
):
    monkeypatch.setattr(products, "made_by_intel", lambda: intel)
    monkeypatch.setattr(products, "has_mkl", lambda: True)
    weight = torch.randn(shape)
    multiply = product(weight, None, 1)
    assert multiply.func is torch.mv
    assert multiply.args[0].stride() == stride
    assert (multiply.args[0] is weight) == (stride[1] == 1)
