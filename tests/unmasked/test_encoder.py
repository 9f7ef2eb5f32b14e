"""The encoder: a residual around each sublayer, two of them in a layer, layers in a stack."""

import pytest
import torch

from helpers import SMALL, difference, layer_config, vectors
from unmasked.encoder import Encoder, EncoderLayer, Residual
from unmasked.masks import length_mask

NORMS = ["post", "pre"]


@pytest.mark.parametrize("norm", NORMS)
def test_a_residual_is_the_sum_with_its_norm_in_place(norm):
    residual = Residual(layer_config(norm=norm)).double()
    x, given = vectors(2, 3), []

    def sublayer(x, **options):
        given.append(options)
        return x.sin()

    found = residual(x, sublayer, mask="a mask")
    if norm == "post":
        assert torch.equal(found, residual.norm(x + x.sin()))
    else:
        assert torch.equal(found, x + residual.norm(x).sin())
    assert given == [{"mask": "a mask"}]


@pytest.mark.parametrize("norm", NORMS)
def test_a_residuals_dropout_falls_on_what_the_sublayer_says(norm):
    residual = Residual(layer_config(norm=norm, dropout=0.5)).double().train()
    residual.norm = torch.nn.Identity()
    x, y = vectors(2, 3), vectors(2, 3)
    added = residual(x, lambda _: y) - x
    dropped = added.abs() < 1e-12
    assert 0 < dropped.sum() < dropped.numel()
    assert difference(added, (2 * y).masked_fill(dropped, 0.0)) < 1e-12


@pytest.mark.parametrize("norm", NORMS)
def test_an_encoder_layer_written_out(norm):
    layer = EncoderLayer(layer_config(norm=norm)).double()
    x, mask = vectors(3, 5), length_mask(torch.tensor([5, 2, 4]), 5)
    norm1, norm2 = layer.attention_residual.norm, layer.feed_forward_residual.norm
    if norm == "post":
        y = norm1(x + layer.self_attention(x, mask=mask))
        expected = norm2(y + layer.feed_forward(y))
    else:
        y = x + layer.self_attention(norm1(x), mask=mask)
        expected = y + layer.feed_forward(norm2(y))
    assert difference(layer(x, mask=mask), expected) < 1e-14


@pytest.mark.parametrize("final_norm", [False, True])
def test_an_encoder_applies_its_layers_in_order(final_norm):
    encoder = Encoder(layer_config(), 3, final_norm).double()
    x = expected = vectors(2, 4)
    for layer in encoder.layers:
        expected = layer(expected)
    assert (encoder.norm is not None) == final_norm
    expected = encoder.norm(expected) if final_norm else expected
    assert torch.equal(encoder(x), expected)


@pytest.mark.parametrize("norm", NORMS)
def test_padding_changes_nothing_that_is_real(norm):
    encoder = Encoder(layer_config(norm=norm), 2, True).double()
    x, mask = vectors(2, 6), length_mask(torch.tensor([6, 4]), 6)
    other = x.clone()
    other[1, 4:] = 1000 * torch.randn(2, SMALL["d_model"]).double()
    assert torch.equal(encoder(x, mask=mask)[1, :4], encoder(other, mask=mask)[1, :4])


def test_collecting_an_encoders_maps_changes_no_output():
    encoder, x, maps = Encoder(layer_config(), 2).double(), vectors(2, 4), []
    mask = length_mask(torch.tensor([4, 3]), 4)
    assert difference(encoder(x, mask=mask, maps=maps), encoder(x, mask=mask)) < 1e-14
    assert [weights.shape for weights in maps] == [(2, 4, 4, 4)] * 2
    assert not torch.equal(*maps)
    for weights in maps:
        assert difference(weights.sum(-1), torch.ones(2, 4, 4).double()) < 1e-14
        assert weights[1, :, :, 3].eq(0).all()
