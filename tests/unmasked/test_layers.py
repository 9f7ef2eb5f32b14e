"""Encoder and decoder: what every layer must do, whatever the configuration."""

import pytest
import torch

from helpers import SMALL, difference, small_model
from unmasked import LayerConfig
from unmasked.decoder import Decoder, DecoderLayer
from unmasked.encoder import Encoder, EncoderLayer, Residual
from unmasked.masks import causal_mask, length_mask

NORMS = ["post", "pre"]
CONFIG = {key: value for key, value in SMALL.items() if key != "n_layers"}


def config(**changes):
    return LayerConfig(**{**CONFIG, "dropout": 0.0, **changes})


def vectors(batch, length):
    return torch.randn(batch, length, CONFIG["d_model"], dtype=torch.float64)


@pytest.mark.parametrize("norm", NORMS)
def test_a_residual_is_the_sum_with_its_norm_in_place(norm):
    residual = Residual(config(norm=norm)).double()
    x, y = vectors(2, 3), vectors(2, 3)
    if norm == "post":
        assert residual.enter(x) is x
        assert torch.equal(residual.leave(x, y), residual.norm(x + y))
    else:
        assert torch.equal(residual.enter(x), residual.norm(x))
        assert torch.equal(residual.leave(x, y), x + y)


@pytest.mark.parametrize("norm", NORMS)
def test_an_encoder_layer_written_out(norm):
    layer = EncoderLayer(config(norm=norm)).double()
    x, mask = vectors(3, 5), length_mask(torch.tensor([5, 2, 4]), 5)
    norm1, norm2 = layer.attention_residual.norm, layer.feed_forward_residual.norm
    if norm == "post":
        y = norm1(x + layer.self_attention(x, mask=mask))
        expected = norm2(y + layer.feed_forward(y))
    else:
        y = x + layer.self_attention(norm1(x), mask=mask)
        expected = y + layer.feed_forward(norm2(y))
    assert difference(layer(x, mask=mask), expected) < 1e-14


@pytest.mark.parametrize("norm", NORMS)
def test_a_decoder_layer_written_out(norm):
    layer = DecoderLayer(config(norm=norm)).double()
    x, memory, mask = vectors(2, 4), vectors(2, 6), causal_mask(4)
    memory_mask = length_mask(torch.tensor([6, 3]), 6)
    steps = [
        (layer.self_residual.norm, lambda x: layer.self_attention(x, mask=mask)),
        (
            layer.cross_residual.norm,
            lambda x: layer.cross_attention(x, key=memory, mask=memory_mask),
        ),
        (layer.feed_forward_residual.norm, layer.feed_forward),
    ]
    expected = x
    for norm_layer, sublayer in steps:
        if norm == "post":
            expected = norm_layer(expected + sublayer(expected))
        else:
            expected = expected + sublayer(norm_layer(expected))
    assert difference(layer(x, memory, mask=mask, memory_mask=memory_mask), expected) < 1e-14


@pytest.mark.parametrize("final_norm", [False, True])
def test_stacks_apply_their_layers_in_order(final_norm):
    encoder = Encoder(config(), 3, final_norm).double()
    decoder = Decoder(config(), 3, final_norm).double()
    x, memory = vectors(2, 4), vectors(2, 5)
    encoded, decoded = x, x
    for layer in encoder.layers:
        encoded = layer(encoded)
    for layer in decoder.layers:
        decoded = layer(decoded, memory)
    if final_norm:
        encoded, decoded = encoder.norm(encoded), decoder.norm(decoded)
    assert torch.equal(encoder(x), encoded)
    assert torch.equal(decoder(x, memory), decoded)


@pytest.mark.parametrize("norm", NORMS)
def test_padding_changes_nothing_that_is_real(norm):
    encoder = Encoder(config(norm=norm), 2, True).double()
    x, mask = vectors(2, 6), length_mask(torch.tensor([6, 4]), 6)
    other = x.clone()
    other[1, 4:] = 1000 * torch.randn(2, CONFIG["d_model"]).double()
    assert torch.equal(encoder(x, mask=mask)[1, :4], encoder(other, mask=mask)[1, :4])


@pytest.mark.parametrize("norm", NORMS)
def test_the_future_changes_nothing_before_it(norm):
    decoder = Decoder(config(norm=norm), 2).double()
    x, memory = vectors(1, 6), vectors(1, 3)
    before = decoder(x, memory, mask=causal_mask(6))
    for time in range(1, 6):
        other = x.clone()
        other[0, time:] += 1
        after = decoder(other, memory, mask=causal_mask(6))
        assert difference(after[0, :time], before[0, :time]) < 1e-13
        assert difference(after[0, time:], before[0, time:]) > 1e-3


def test_asking_for_weights_changes_no_output():
    encoder, decoder = Encoder(config(), 2).double(), Decoder(config(), 2).double()
    x, memory = vectors(2, 4), vectors(2, 5)
    encoded, encoder_maps = encoder(x, need_weights=True)
    decoded, decoder_maps = decoder(x, memory, mask=causal_mask(4), need_weights=True)
    assert difference(encoded, encoder(x)) < 1e-14
    assert difference(decoded, decoder(x, memory, mask=causal_mask(4))) < 1e-14
    assert [weights.shape for weights in encoder_maps] == [(2, 4, 4, 4)] * 2
    for own, across in decoder_maps:
        assert own.shape == (2, 4, 4, 4)
        assert across.shape == (2, 4, 4, 5)
        assert own.triu(1).eq(0).all()


def test_every_parameter_is_reached_by_the_gradient():
    model = small_model(positions="learned", max_len=4, norm="pre", output_bias=True)
    tokens = torch.tensor([[3, 4, 5, 6]])
    model(tokens, tokens).square().sum().backward()
    unreached = [
        name
        for name, parameter in model.named_parameters()
        # Softmax does not feel one number added to all scores, so a key's bias has no effect.
        if not name.endswith("key.bias") and not parameter.grad.abs().max() > 1e-12
    ]
    assert unreached == []
