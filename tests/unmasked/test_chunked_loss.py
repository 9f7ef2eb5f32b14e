"""The loss in parts is the loss: its value and every gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from helpers import difference
from unmasked import chunked_loss
from unmasked.chunked_loss import summed_loss
from unmasked.loss import smoothed_cross_entropy


def inputs(rows, width, vocabulary, dtype=torch.float64):
    return (
        torch.randn(rows, width, dtype=dtype, requires_grad=True),
        torch.randn(vocabulary, width, dtype=dtype, requires_grad=True),
        torch.randn(vocabulary, dtype=dtype, requires_grad=True),
        torch.randint(vocabulary, (rows,)),
    )


def whole(hidden, weight, bias, labels, smoothing):
    return smoothed_cross_entropy(F.linear(hidden, weight, bias), labels, smoothing).sum()


@given(
    st.integers(1, 40), st.integers(1, 12), st.integers(1, 500), st.floats(0, 1), st.booleans(),
    st.sampled_from([1, 1e4]),
)  # fmt: skip
def test_value_and_gradients_are_those_of_the_whole(rows, vocabulary, part, smoothing, biased, far):
    """Also of logits so far apart that their exponentials would overflow."""
    hidden, weight, bias, labels = inputs(rows, 5, vocabulary)
    hidden.data *= far
    arguments = hidden, weight, bias if biased else None, labels, smoothing
    wanted = [hidden, weight] + [bias] * biased
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(chunked_loss.PARTS, "cpu", part)
        found = summed_loss(*arguments)
        gradients = torch.autograd.grad(3 * found, wanted)
    expected = whole(*arguments)
    assert difference(found, expected) < 1e-10 * far
    for mine, theirs in zip(gradients, torch.autograd.grad(3 * expected, wanted), strict=True):
        assert difference(mine, theirs) < 1e-10 * far


def test_under_autocast_products_are_halves_and_sums_are_not():
    hidden, weight, _, labels = inputs(200, 32, 50, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = summed_loss(hidden, weight, None, labels, 0.1)
        expected = whole(hidden, weight, None, labels, 0.1)
    assert found.dtype == torch.float32
    assert abs(found / expected - 1) < 1e-4
    mine = torch.autograd.grad(found, [hidden, weight])
    for x, y in zip(mine, torch.autograd.grad(expected, [hidden, weight]), strict=True):
        assert x.dtype == torch.float32
        assert difference(x, y) < 0.02 * float(y.abs().max())
