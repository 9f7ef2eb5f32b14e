"""The shortest loop: Adam's steps, at rates that rise and fall."""

import pytest
import torch
from torch import nn

from helpers.refusals import refusals
from unmasked.training.fit import fit


def far(model, x, y):
    return (model(x) - y).square().mean()


def test_the_losses_are_those_before_each_step_and_the_model_is_left_to_be_used():
    model = nn.Sequential(nn.Linear(3, 1), nn.Dropout(0.5)).eval()
    batches = [(torch.randn(5, 3), torch.randn(5, 1)) for _ in range(4)]
    seen = []

    def loss(model, *batch):
        assert model.training
        seen.append(far(model, *batch))
        return seen[-1]

    assert fit(model, loss, iter(batches)) == [value.item() for value in seen]
    assert len(seen) == 4
    assert not any(module.training for module in model.modules())


def test_the_rate_rises_for_a_third_of_the_steps_and_falls_to_nearly_nothing():
    """Where the gradient is always 1, each step of Adam is nearly as long as the rate."""
    model, places = nn.ParameterDict({"x": torch.zeros(1, dtype=torch.float64)}), []

    def height(model):
        places.append(model["x"].item())
        return model["x"].sum()

    fit(model, height, [()] * 300, rate=0.01)
    steps = -torch.tensor([*places, model["x"].item()]).diff()
    highest = int(steps.argmax())
    assert 80 < highest < 100
    assert steps[highest] == pytest.approx(0.01, rel=0.01)
    assert steps[0] == pytest.approx(0.01 / 25, rel=0.05)
    assert steps[-1] < 0.01 / 1000


test_what_cannot_be_fitted_is_refused = refusals(
    (lambda: fit(nn.Linear(1, 1), far, []), "batches: expected at least one batch, got none"),
    (lambda: fit(nn.Linear(1, 1), far, [()], rate=1.1), "rate: expected a number .*, got 1.1"),
)
