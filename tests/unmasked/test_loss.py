"""The loss is the cross-entropy of real labels, however it is computed."""

from unittest.mock import Mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from helpers import as_target, difference, ragged, small_model
from unmasked import chunked_loss, loss
from unmasked.chunked_loss import summed_loss
from unmasked.loss import smoothed_cross_entropy, translation_loss


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_cross_entropy_over_the_real_labels(packed, smoothing):
    model = small_model(output_bias=True)
    source, target = ragged([7, 4, 1]), as_target(ragged([2, 5, 3]))
    found = translation_loss(model, source, target, smoothing=smoothing, packed=packed)
    real = target[:, 1:] != 0
    logs = model(source, target[:, :-1])[real].log_softmax(-1)
    chosen = logs.gather(-1, target[:, 1:][real][:, None])[:, 0]
    expected = -((1 - smoothing) * chosen + smoothing * logs.mean(-1)).mean()
    assert difference(found, expected) < 1e-12
    given = {"smoothing": smoothing, "packed": packed}
    assert torch.equal(translation_loss(model, source.int(), target.int(), **given), found)


def test_logits_of_half_precision_are_summed_in_float32():
    logits, labels = torch.randn(5, 9).bfloat16(), torch.randint(9, (5,))
    halves = smoothed_cross_entropy(logits, labels, 0.1)
    assert difference(halves, smoothed_cross_entropy(logits.float(), labels, 0.1)) < 1e-6


# --- Many logits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [None, 100])
@pytest.mark.parametrize("output_bias", [False, True])
@pytest.mark.parametrize("plain", [True, False])
def test_the_loss_is_made_in_parts_where_logits_are_many(monkeypatch, total, output_bias, plain):
    model, source = small_model(tie_embeddings=True, output_bias=output_bias), ragged([5, 3, 7])
    results, in_parts = [], Mock(wraps=loss.summed_loss)
    monkeypatch.setattr(loss, "summed_loss", in_parts)
    if not plain:
        model.generator.register_forward_hook(lambda _, __, logits: logits.roll(1, -1))
    logits = 18 * 23  # of 5 + 3 + 7 words and three ends
    for many, times in ((logits, 0), (logits - 1, 1)):
        monkeypatch.setattr(loss, "MANY", many)
        value = translation_loss(model, source, as_target(source), smoothing=0.1, total=total)
        results.append([value, *torch.autograd.grad(value, [*model.parameters()])])
        assert in_parts.call_count == times * plain
    for a, b in zip(*results, strict=True):
        assert difference(a, b) < 1e-12


def inputs(rows, width, vocabulary, dtype=torch.float64):
    shapes = (rows, width), (vocabulary, width), (vocabulary,)
    numbers = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)
    return *numbers, torch.randint(vocabulary, (rows,))


def whole(hidden, weight, bias, labels, smoothing):
    return smoothed_cross_entropy(F.linear(hidden, weight, bias), labels, smoothing).sum()


@given(
    st.integers(1, 40), st.integers(1, 12), st.integers(1, 500), st.floats(0, 1), st.booleans(),
    st.sampled_from([1, 1e4]),  # the exponentials of distant logits would overflow
)  # fmt: skip
def test_value_and_gradients_are_those_of_the_whole(rows, vocabulary, part, smoothing, biased, far):
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
