"""Leaving padding out changes the time, not the numbers."""

import pytest
import torch

from helpers import DEVICES, MODELS, as_target, difference, ragged, small_model
from unmasked.fast.packed import packed_decode
from unmasked.loss import teacher_forcing, translation_loss
from unmasked.masks import padding_mask


def batch(lengths=(7, 4, 1), targets=(2, 5, 3)):
    return ragged(list(lengths)), as_target(ragged(list(targets)))


@pytest.mark.parametrize("lengths", [[(7, 4, 1)], [(5, 5, 5)], [(7, 4, 1), (4, 4, 4)]])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("preset", MODELS)
def test_packed_equals_padded_with_gradients(preset, device, lengths):
    model = small_model(preset, dropout=0.0, inner_dropout=0.0).to(device)
    source, target = (tokens.to(device) for tokens in batch(*lengths))
    inputs, labels = teacher_forcing(target)
    mask = padding_mask(source)
    memory = model.encode(source)
    padded = model.decode(inputs, memory, source_mask=mask)[labels != 0]
    packed = packed_decode(model, source, inputs, labels != 0)
    assert difference(padded, packed) < 1e-12
    weights, parameters = torch.randn_like(padded), list(model.parameters())
    expected, gradients = (
        torch.autograd.grad((x * weights).sum(), parameters, allow_unused=True)
        for x in (padded, packed)
    )
    for a, b in zip(expected, gradients, strict=True):
        assert (a is None and b is None) or difference(a, b) < 1e-10


@pytest.mark.parametrize(
    ("find", "name"),
    [
        (lambda model: model.target_embedding.dropout, "p"),
        (lambda model: model.decoder.layers[1].cross_attention, "dropout"),
        (lambda model: model.decoder.layers[1].feed_forward.dropout, "p"),
        (lambda model: model.decoder.layers[1].cross_residual.dropout, "p"),
    ],
)
def test_packed_dropout_is_applied_in_every_place(find, name):
    """Each place alone drops something, in the packed version as in the padded one."""
    model, (source, target) = small_model(dropout=0.0).train(), batch()
    setattr(find(model), name, 0.5)
    for packed in (False, True):
        losses = {translation_loss(model, source, target, packed=packed).item() for _ in range(5)}
        assert len(losses) == 5
