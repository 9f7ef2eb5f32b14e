"""The recurrent model: what it sees and what it does not."""

import pytest
import torch

from helpers import difference
from unmasked.training.recipe import Recipe
from unmasked_book.examples import LETTERS, speller
from unmasked_book.experiments.learning import cross_entropy, learn
from unmasked_book.experiments.lstm import Recurrent, recurrent_like
from unmasked_book.experiments.root_of_width import spelling_corpus

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


def test_it_learns_as_what_it_is_compared_with():
    corpus, recipe = spelling_corpus(400, seed=0), Recipe(steps=25, tokens=200, warmup=2)
    for model in (speller(seed=0), recurrent_like(speller(), LETTERS, 0)):
        before = cross_entropy(model, corpus)
        seen = learn(model, corpus, recipe, lambda: cross_entropy(model, corpus), every=10)  # noqa: B023
        assert len(seen) == 3  # at 10, 20 and the end
        assert seen[-1] < before
