"""The decoder: three sublayers in a layer, layers in a stack, and what it remembers of steps."""

import pytest
import torch

from helpers import difference, layer_config, vectors
from unmasked.decoder import Decoder, DecoderLayer, DecoderState
from unmasked.masks import causal_mask, length_mask


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_decoder_layer_written_out(norm):
    layer = DecoderLayer(layer_config(norm=norm)).double()
    x, memory, mask = vectors(2, 4), vectors(2, 6), causal_mask(4)
    memory_mask = length_mask(torch.tensor([6, 3]), 6)

    def across(x):
        return layer.cross_attention(x, key=memory, mask=memory_mask)

    expected = x
    for residual, sublayer in (
        (layer.self_residual, lambda x: layer.self_attention(x, mask=mask)),
        (layer.cross_residual, across),
        (layer.feed_forward_residual, layer.feed_forward),
    ):
        if norm == "post":
            expected = residual.norm(expected + sublayer(expected))
        else:
            expected = expected + sublayer(residual.norm(expected))
    assert difference(layer(x, memory, mask=mask, memory_mask=memory_mask), expected) < 1e-14


def test_a_state_of_another_depth_is_refused_compiled_too():
    decoder = Decoder(layer_config(), 2).double().eval()
    for call in (decoder, torch.compile(decoder, backend="eager")):
        with pytest.raises(ValueError, match=r"layers|zip"):
            call(vectors(1, 1), vectors(1, 2), state=DecoderState(1))
