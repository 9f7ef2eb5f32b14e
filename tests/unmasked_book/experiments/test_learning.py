"""One way to learn and to measure, whatever the model; and what is learnt from."""

import pytest
import torch

from unmasked.training.recipe import Recipe
from unmasked_book.examples import LETTERS, speller
from unmasked_book.experiments.learning import learn, score, spelling_corpus
from unmasked_book.experiments.lstm import recurrent_like


def lstm(seed):
    return recurrent_like(speller(n_layers=1), LETTERS, seed)


@pytest.mark.parametrize("make", [speller, lstm])
def test_the_same_seed_gives_the_same_training_of_either_model(make):
    recipe = Recipe(steps=4, tokens=60, warmup=1, smoothing=0.0)
    models = [make(seed=seed) for seed in (0, 0, 1)]
    for model in models:
        learn(model, spelling_corpus(50), recipe)
    first, again, other = (torch.cat([p.flatten() for p in m.parameters()]) for m in models)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_learning_lowers_the_cross_entropy_and_is_watched():
    model, corpus = speller(seed=0), spelling_corpus(400)
    before, recipe = score(model, corpus), Recipe(steps=25, tokens=200, warmup=2, smoothing=0.0)
    seen = learn(model, corpus, recipe, watch=lambda: score(model, corpus).cross_entropy, every=10)
    assert len(seen) == 3  # at 10, 20 and the end
    assert seen[-1] < before.cross_entropy
    assert not model.training
