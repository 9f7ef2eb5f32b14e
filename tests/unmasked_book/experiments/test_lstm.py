"""The recurrent model: what it sees and what it does not."""

import pytest
import torch

from helpers import difference
from unmasked_book.experiments.lstm import Recurrent

VOCABULARY = 20


def small(**changes):
    torch.manual_seed(0)
    return Recurrent(VOCABULARY, VOCABULARY, 8, **changes).double().eval()


def tokens(*shape):
    return torch.randint(3, VOCABULARY, shape)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_padding_changes_nothing(n_layers):
    model = small(n_layers=n_layers)
    source, target = tokens(1, 5), tokens(1, 4)
    batch = torch.cat([source, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    beside = torch.cat([batch, tokens(1, 8)])
    alone = model(source, target)
    assert difference(model(batch, target), alone) < 1e-12
    assert difference(model(beside, target.expand(2, -1))[:1], alone) < 1e-12


def test_the_future_is_not_seen_and_the_past_is():
    model = small()
    source, target = tokens(2, 5), tokens(2, 6)
    changed = target.clone()
    changed[:, 3] = 3 + (changed[:, 3] - 2) % (VOCABULARY - 3)
    before, after = model(source, target), model(source, changed)
    assert difference(before[:, :3], after[:, :3]) == 0
    assert all(difference(before[:, t], after[:, t]) > 1e-6 for t in range(3, 6))
