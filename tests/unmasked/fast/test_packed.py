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
    weights = torch.randn_like(padded)
    expected = torch.autograd.grad((padded * weights).sum(), trained(model))
    gradients = torch.autograd.grad((packed * weights).sum(), trained(model))
    for a, b in zip(expected, gradients, strict=True):
        assert difference(a, b) < 1e-10


def trained(model):
    """All but what the decoder's output does not depend on."""
    tied = model.config.tie_embeddings
    return [p for n, p in model.named_parameters() if tied or not n.startswith("generator")]


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
