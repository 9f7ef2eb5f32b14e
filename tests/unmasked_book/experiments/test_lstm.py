"""Tests that the recurrent model learns; `unmasked.check`'s tests say what it sees."""

from unmasked.training.recipe import Recipe
from unmasked_book.examples import LETTERS, speller
from unmasked_book.experiments.lstm import cross_entropy, learn, recurrent_like
from unmasked_book.experiments.root_of_width import spelling_corpus


def test_it_learns_as_what_it_is_compared_with():
    corpus, recipe = spelling_corpus(400, seed=0), Recipe(steps=25, tokens=200, warmup=2)
    for model in (speller(seed=0), recurrent_like(speller(), LETTERS, 0)):
        before = cross_entropy(model, corpus)
        seen = learn(model, corpus, recipe, lambda: cross_entropy(model, corpus), every=10)  # noqa: B023
        assert len(seen) == 3  # at 10, 20 and the end
        assert seen[-1] < before
