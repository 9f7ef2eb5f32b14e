"""One way to learn and to measure, whatever the model; and what is learnt from."""

import pytest

from unmasked.training.recipe import Recipe
from unmasked_book.examples import LETTERS, speller
from unmasked_book.experiments.learning import learn, score, spelling_corpus
from unmasked_book.experiments.lstm import recurrent_like


@pytest.mark.parametrize("model", [speller(seed=0), recurrent_like(speller(), LETTERS, 0)])
def test_learning_lowers_the_cross_entropy_and_is_watched(model):
    corpus = spelling_corpus(400)
    before, recipe = score(model, corpus), Recipe(steps=25, tokens=200, warmup=2, smoothing=0.0)
    seen = learn(model, corpus, recipe, watch=lambda: score(model, corpus).cross_entropy, every=10)
    assert len(seen) == 3  # at 10, 20 and the end
    assert seen[-1] < before.cross_entropy
    assert not model.training
