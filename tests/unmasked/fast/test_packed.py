"""Leaving padding out changes the time, not the numbers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from helpers import DEVICES, as_target, difference, ragged, small_model
from unmasked import PRESETS
from unmasked.fast.packed import Layout, packed_decode
from unmasked.loss import smoothed_cross_entropy, teacher_forcing, translation_loss
from unmasked.masks import padding_mask


def batch():
    return ragged([7, 4, 1]), as_target(ragged([2, 5, 3]))


def test_padding_that_a_target_begins_with_is_refused_by_the_packed_way():
    target = torch.tensor([[0, 1, 5, 2], [1, 3, 4, 2]])
    with pytest.raises(ValueError, match="its real labels first in every row"):
        translation_loss(small_model(), ragged([4, 3]), target, packed=True)


def test_a_layout_leads_there_and_back():
    real = torch.tensor([[True, True, False], [False, True, True]])
    x = torch.randn(2, 3, 4)
    packed = Layout(real).pack(x)
    assert torch.equal(packed, x[real][None])
    assert torch.equal(Layout(real).unpack(packed), x * real[:, :, None])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("preset", PRESETS)
def test_packed_equals_padded_with_gradients(preset, device):
    model = small_model(preset, dropout=0.0, inner_dropout=0.0).to(device)
    source, target = (tokens.to(device) for tokens in batch())
    inputs, labels = teacher_forcing(target)
    mask = padding_mask(source)
    memory = model.encode(source)
    padded = model.decode(inputs, memory, source_mask=mask)[labels != 0]
    packed = packed_decode(model, source, inputs, labels != 0)
    assert difference(padded, packed) < 1e-12
    weights = torch.randn_like(padded)
    expected = torch.autograd.grad((padded * weights).sum(), trained(model))
    gradients = torch.autograd.grad((packed * weights).sum(), trained(model))
    for a, b in zip(expected, gradients, strict=True):
        assert difference(a, b) < 1e-10


def trained(model):
    """All but what the decoder's output does not depend on."""
    tied = model.config.tie_embeddings
    return [p for n, p in model.named_parameters() if tied or not n.startswith("generator")]


@pytest.mark.parametrize("part", ["embedding", "attention", "feed_forward", "residual"])
def test_packed_dropout_is_applied_in_every_place(part):
    """Each place alone drops something, in the packed version as in the padded one."""
    model = small_model(dropout=0.0).train()
    layer = model.decoder.layers[1]
    if part == "attention":
        layer.cross_attention.dropout = 0.5
    else:
        module = {
            "embedding": model.target_embedding,
            "feed_forward": layer.feed_forward,
            "residual": layer.cross_residual,
        }[part]
        module.dropout.p = 0.5
    source, target = batch()
    for packed in (False, True):
        losses = {translation_loss(model, source, target, packed=packed).item() for _ in range(5)}
        assert len(losses) == 5


@pytest.mark.parametrize("packed", [False, True])
def test_tokens_of_32_bits_do(packed):
    model = small_model()
    source, target = batch()
    expected = translation_loss(model, source, target, packed=packed)
    assert torch.equal(translation_loss(model, source.int(), target.int(), packed=packed), expected)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_cross_entropy_over_the_real_labels(packed, smoothing):
    model = small_model(output_bias=True)
    source, target = batch()
    loss = translation_loss(model, source, target, smoothing=smoothing, packed=packed)
    logits = model(source, target[:, :-1])
    expected = F.cross_entropy(
        logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0, label_smoothing=smoothing
    )
    assert loss.item() == pytest.approx(expected.item(), abs=1e-12)


@pytest.mark.parametrize("packed", [False, True])
def test_more_padding_does_not_change_the_loss(packed):
    model = small_model()
    source, target = batch()
    loss = translation_loss(model, source, target, packed=packed)
    longer = translation_loss(model, F.pad(source, (0, 3)), F.pad(target, (0, 4)), packed=packed)
    assert loss.item() == pytest.approx(longer.item(), abs=1e-12)


@given(
    sizes=st.tuples(st.integers(1, 30), st.integers(1, 40)),
    smoothing=st.floats(0.0, 0.99),
    scale=st.sampled_from([1e-3, 1.0, 300.0]),
)
def test_smoothing_is_that_of_torch_in_value_and_gradient(sizes, smoothing, scale):
    torch.manual_seed(sizes[0])
    ours = (scale * torch.randn(sizes, dtype=torch.float64)).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    labels = torch.randint(sizes[1], (sizes[0],))
    losses = smoothed_cross_entropy(ours, labels, smoothing)
    expected = F.cross_entropy(theirs, labels, label_smoothing=smoothing, reduction="none")
    assert difference(losses, expected) < 1e-12 * max(1.0, scale)
    weights = torch.randn(sizes[0], dtype=torch.float64)
    (losses * weights).sum().backward()
    (expected * weights).sum().backward()
    assert difference(ours.grad, theirs.grad) < 1e-12


@pytest.mark.parametrize("packed", [False, True])
def test_parts_of_a_batch_add_up_to_the_whole(packed):
    """In value and gradient; a mean of means would not."""
    model = small_model(dropout=0.0, inner_dropout=0.0)
    source, target = batch()
    total = int((target[:, 1:] != 0).sum())
    options = {"smoothing": 0.1, "packed": packed}
    whole = translation_loss(model, source, target, **options)
    same = translation_loss(model, source, target, total=total, **options)
    rows = [(source[i : i + 1], target[i : i + 1]) for i in range(len(source))]
    parts = [translation_loss(model, *row, total=total, **options) for row in rows]
    assert same.item() == pytest.approx(whole.item(), abs=1e-12)
    assert sum(parts).item() == pytest.approx(whole.item(), abs=1e-12)
    means = [translation_loss(model, *row, **options).item() for row in rows]
    assert sum(means) / len(means) != pytest.approx(whole.item(), abs=1e-4)
    expected = torch.autograd.grad(whole, model.parameters())
    gradients = torch.autograd.grad(sum(parts), model.parameters())
    for a, b in zip(expected, gradients, strict=True):
        assert difference(a, b) < 1e-12


@pytest.mark.parametrize("packed", [False, True])
def test_nothing_is_learnt_from_padding(packed):
    """Neither its embedding nor the rows that nobody says move, whatever the loss is."""
    model = small_model(dropout=0.0, inner_dropout=0.0)
    translation_loss(model, *batch(), packed=packed).backward()
    assert model.source_embedding.tokens.weight.grad[0].abs().max() == 0
    assert model.target_embedding.tokens.weight.grad[0].abs().max() == 0


def test_smoothing_written_out():
    """The label keeps 1 - ε of the probability; ε is spread over the whole vocabulary."""
    model = small_model()
    source, target = batch()
    inputs, labels = teacher_forcing(target)
    log_probabilities = model(source, inputs).log_softmax(-1)[labels != 0]
    chosen = log_probabilities.gather(-1, labels[labels != 0][:, None])
    expected = -(0.9 * chosen.mean() + 0.1 * log_probabilities.mean())
    loss = translation_loss(model, source, target, smoothing=0.1)
    assert loss.item() == pytest.approx(expected.item(), abs=1e-12)
