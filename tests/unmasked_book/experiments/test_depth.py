"""Deep stacks: each kind is what its name says."""

import pytest
import torch
from torch.nn import functional as F

from unmasked_book.experiments.depth import KINDS, SCALED, stack


def by_hand(layer, x, kind):
    """A layer of this kind, written out."""
    for around, sublayer in (
        (layer.attention_residual, layer.self_attention),
        (layer.feed_forward_residual, layer.feed_forward),
    ):
        y = sublayer(around.norm(x)) if kind.norm == "pre" else sublayer(x)
        y = x + y if kind.residuals else y
        x = around.norm(y) if kind.norm == "post" else y
    return x


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_stack_is_of_its_kind(kind):
    encoder, x = stack(2, kind, seed=3, d_model=16), torch.randn(2, 5, 16)
    expected = by_hand(encoder.layers[1], by_hand(encoder.layers[0], x, kind), kind)
    expected = F.layer_norm(expected, (16,)) if kind.norm == "pre" else expected
    assert torch.allclose(encoder(x), expected, atol=1e-5)


def test_corrections_that_are_scaled_begin_smaller_by_the_root_of_their_number():
    usual, scaled = (stack(8, kind, seed=3, d_model=16) for kind in (KINDS[0], SCALED[0]))
    for name, parameter in usual.named_parameters():
        smaller = name.endswith(("self_attention.output.weight", "feed_forward.contract.weight"))
        expected = parameter / 4 if smaller else parameter  # √(2 · 8)
        assert torch.allclose(scaled.get_parameter(name), expected)
