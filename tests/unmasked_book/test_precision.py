"""The formats are PyTorch's, and rounding to their bits is what a conversion does."""

import pytest
import torch

from unmasked_book.machines import FORMATS, rounded


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_the_formats_that_pytorch_has_are_its(name):
    known, ours = torch.finfo(getattr(torch, name)), FORMATS[name]
    assert (ours.step, ours.largest) == (known.eps, known.max)
    assert ours.smallest == known.smallest_normal
    assert 1 + ours.exponent + ours.fraction == known.bits


def test_tf32_reaches_as_far_as_float32_in_the_steps_of_float16():
    assert FORMATS["TF32"].step == FORMATS["float16"].step
    assert FORMATS["TF32"].exponent == FORMATS["float32"].exponent


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_rounding_is_the_conversion_and_back(name):
    ordinary = torch.randn(1000) * 2.0 ** torch.randint(-4, 13, (1000,))
    ordinary = ordinary[ordinary.abs() > 1e-4]  # below, float16 gives up its leading 1
    ties = 1 + torch.arange(8.0) / 2**11
    x = torch.cat([ordinary, ties, -ties, torch.tensor([0.0, 1.0])])
    assert torch.equal(rounded(x, FORMATS[name].fraction), x.to(getattr(torch, name)).float())


def test_rounding_keeps_the_range():
    largest = torch.tensor([torch.finfo(torch.float32).max, -1e-38])
    assert torch.allclose(rounded(largest.double(), 10), largest.double(), rtol=2**-11)
    assert rounded(largest, 23).equal(largest)


def test_bits_are_counted():
    with pytest.raises(ValueError, match="fraction: expected a whole number of at least 0, got -1"):
        rounded(torch.ones(1), -1)
