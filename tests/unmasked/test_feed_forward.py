import pytest
import torch

from helpers import difference
from unmasked.feed_forward import FeedForward


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_and_convolution_are_the_same_function(activation, bias):
    linear = FeedForward(6, 10, activation=activation, bias=bias).double()
    conv = FeedForward(6, 10, kind="conv", activation=activation, bias=bias).double()
    conv.load_state_dict(
        {k: v[:, :, None] if v.dim() == 2 else v for k, v in linear.state_dict().items()}
    )
    x = torch.randn(3, 5, 6).double()
    assert difference(linear(x), conv(x)) < 1e-14


@pytest.mark.parametrize("kind", ["linear", "conv"])
def test_position_by_position(kind):
    module = FeedForward(4, 8, kind=kind)
    x = torch.randn(1, 5, 4)
    y = x.clone()
    y[0, 2] += 1
    changed = (module(x) != module(y)).any(-1)[0]
    assert changed.tolist() == [False, False, True, False, False]


def test_the_papers_formula():
    module = FeedForward(4, 8)
    x = torch.randn(2, 3, 4)
    (w1, b1), (w2, b2) = ((part.weight, part.bias) for part in (module.expand, module.contract))
    expected = torch.clamp(x @ w1.T + b1, min=0) @ w2.T + b2
    assert difference(module(x), expected) < 1e-6
