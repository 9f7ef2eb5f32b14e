"""The loss: cross-entropy on real labels, the same however it is computed."""

from unittest.mock import Mock

import pytest
import torch

from helpers import as_target, difference, ragged, small_model
from unmasked import loss
from unmasked.loss import smoothed_cross_entropy, translation_loss


def batch():
    return ragged([7, 4, 1]), as_target(ragged([2, 5, 3]))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_cross_entropy_over_the_real_labels(packed, smoothing):
    """The label keeps 1 - ε of the probability; ε is spread over the whole vocabulary."""
    model = small_model(output_bias=True)
    source, target = batch()
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


@pytest.mark.parametrize("packed", [False, True])
def test_nothing_is_learnt_from_padding(packed):
    """Neither its embedding nor the rows that nobody says move, whatever the loss is."""
    model = small_model(dropout=0.0, inner_dropout=0.0)
    translation_loss(model, *batch(), packed=packed).backward()
    assert model.source_embedding.tokens.weight.grad[0].abs().max() == 0
    assert model.target_embedding.tokens.weight.grad[0].abs().max() == 0


# --- Many logits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [None, 100])
@pytest.mark.parametrize("output_bias", [False, True])
def test_the_loss_is_made_in_parts_where_logits_are_many(monkeypatch, total, output_bias):
    model, source = small_model(tie_embeddings=True, output_bias=output_bias), ragged([5, 3, 7])
    target, results, in_parts = as_target(source), [], Mock(wraps=loss.summed_loss)
    monkeypatch.setattr(loss, "summed_loss", in_parts)
    logits = 18 * 23  # of 5 + 3 + 7 words and three ends
    for many, times in ((logits, 0), (logits - 1, 1)):
        monkeypatch.setattr(loss, "MANY", many)
        model.zero_grad()
        value = translation_loss(model, source, target, smoothing=0.1, total=total)
        value.backward()
        assert in_parts.call_count == times
        results.append([value.detach(), *(p.grad.clone() for p in model.parameters())])
    for a, b in zip(*results, strict=True):
        assert difference(a, b) < 1e-12
