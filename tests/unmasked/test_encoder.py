"""The encoder: a residual around each sublayer, two of them in a layer, layers in a stack."""

import pytest
import torch

from helpers import difference, layer_config, vectors
from unmasked.encoder import EncoderLayer
from unmasked.masks import length_mask


@pytest.mark.parametrize("norm", ["post", "pre"])
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
