import pytest
import torch
from torch.nn import functional as F

from helpers import difference
from unmasked.feed_forward import FeedForward


@pytest.mark.parametrize("kind", ["linear", "conv"])
@pytest.mark.parametrize("activation", [F.relu, F.gelu])
@pytest.mark.parametrize("bias", [True, False])
def test_the_papers_formula_written_as_linear_layers_or_convolutions(kind, activation, bias):
    options = {"kind": kind, "activation": activation.__name__, "bias": bias}
    module, x = FeedForward(6, 10, **options).double(), torch.randn(3, 5, 6).double()
    w1, w2 = (part.weight.flatten(1) for part in (module.expand, module.contract))
    b1, b2 = (module.expand.bias, module.contract.bias) if bias else (0, 0)
    assert difference(module(x), activation(x @ w1.T + b1) @ w2.T + b2) < 1e-14
