"""R-Drop: its value and gradients are those of its formula, and it asks dropout to be harmless."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from helpers import as_target, difference, ragged, small_model
from small_training import RECIPE, quiet, small
from unmasked import agreement
from unmasked.agreement import summed_agreement
from unmasked.loss import smoothed_cross_entropy, translation_loss
from unmasked.training import Recipe
from unmasked.weights import same_tensors, tensors_of


def by_formula(hidden, weight, bias, labels, smoothing, strength):
    logits = F.linear(hidden, weight, bias).chunk(2)
    surprise = sum(smoothed_cross_entropy(each, labels, smoothing).sum() for each in logits)
    one, other = (each.log_softmax(-1) for each in logits)
    apart = F.kl_div(one, other, reduction="sum", log_target=True)
    apart += F.kl_div(other, one, reduction="sum", log_target=True)
    return surprise / 2 + strength / 4 * apart


@given(
    st.integers(1, 20), st.integers(1, 9), st.integers(1, 300), st.floats(0, 1), st.floats(0, 9),
    st.booleans(),
)  # fmt: skip
def test_value_and_gradients_are_those_of_the_formula(
    rows, vocabulary, part, smoothing, strength, biased
):
    hidden = torch.randn(2 * rows, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(vocabulary, 5, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(vocabulary, dtype=torch.float64, requires_grad=True) if biased else None
    inputs = [x for x in (hidden, weight, bias) if x is not None]
    arguments = (hidden, weight, bias, torch.randint(vocabulary, (rows,)), smoothing, strength)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agreement, "PART", part)
        found = summed_agreement(*arguments)
    expected = by_formula(*arguments)
    assert difference(found, expected) < 1e-10
    gradients = (torch.autograd.grad(3 * each, inputs) for each in (found, expected))
    for mine, theirs in zip(*gradients, strict=True):
        assert difference(mine, theirs) < 1e-10


@pytest.mark.parametrize("packed", [False, True])
def test_without_dropout_it_is_the_plain_loss(packed):
    model, source = small_model(tie_embeddings=True), ragged([5, 3, 7])
    target, options = as_target(source), {"smoothing": 0.1, "packed": packed, "total": 50}
    plain = translation_loss(model, source, target, **options)
    assert (
        difference(translation_loss(model, source, target, agreement=5.0, **options), plain) < 1e-12
    )


def test_predictions_that_differ_cost_more():
    model, source = small_model(dropout=0.5).train(), ragged([5, 3, 7])
    losses = []
    for strength in (1e-9, 1.0, 5.0):
        torch.manual_seed(0)
        losses.append(translation_loss(model, source, as_target(source), agreement=strength).item())
    assert losses[0] < losses[1] < losses[2]
    assert losses[2] - losses[0] == pytest.approx(5 * (losses[1] - losses[0]))


def test_a_training_with_it_repeats_and_is_another_one():
    recipe = Recipe(**{**vars(RECIPE), "agreement": 5.0})
    one, two = small(dropout=0.2), small(dropout=0.2)
    quiet(one, recipe)
    quiet(two, recipe)
    assert same_tensors(tensors_of(one), tensors_of(two))
    other = small(dropout=0.2)
    quiet(other, RECIPE)
    assert not same_tensors(tensors_of(one), tensors_of(other))


def test_it_is_refused_with_the_compiler_and_below_zero():
    with pytest.raises(ValueError, match=r"^agreement: expected 0 where the model is compiled"):
        Recipe(agreement=5.0, compile=True)
    with pytest.raises(ValueError, match=r"^agreement: "):
        Recipe(agreement=-1.0)
