"""Tests that `fit` takes Adam's steps, at rates that rise and fall."""

import pytest
import torch
from torch import nn

from unmasked.training.fit import fit


def test_losses_are_those_before_each_step_and_the_rate_rises_for_a_third_and_falls_to_nothing():
    """Keeps the gradient at 1, so that each step of Adam is nearly as long as the rate."""
    model, seen = nn.ParameterDict({"x": torch.zeros(1, dtype=torch.float64)}).eval(), []

    def height(model, one):
        assert model.training
        seen.append((one * model["x"]).sum())
        return seen[-1]

    losses = fit(model, height, iter([(torch.ones(1),)] * 300), rate=0.01)
    assert losses == [value.item() for value in seen]
    assert not model.training  # it is left to be used
    steps = -torch.tensor([*losses, model["x"].item()]).diff()
    highest = int(steps.argmax())
    assert 80 < highest < 100
    assert steps[highest] == pytest.approx(0.01, rel=0.01)
    assert steps[0] == pytest.approx(0.01 / 25, rel=0.05)
    assert steps[-1] < 0.01 / 1000
