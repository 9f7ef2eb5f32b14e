"""One way to learn and to measure, whatever the model; and what is learnt from."""

import pytest
import torch

from unmasked.config import EOS
from unmasked.search import greedy
from unmasked.training.recipe import Recipe
from unmasked_book.examples import speller
from unmasked_book.experiments import copying
from unmasked_book.experiments.learning import (
    ANY,
    FITS,
    LONG,
    SHORT,
    Sentences,
    learn,
    score,
    share_exact,
    spelling_corpus,
    written,
)


def test_the_same_seed_gives_the_same_training_of_either_model():
    recipe = Recipe(steps=4, tokens=60, warmup=1, smoothing=0.0)
    for kind in copying.MODELS:
        models = [copying.make(kind, seed) for seed in (0, 0, 1)]
        for model in models:
            learn(model, copying.letters(50, 5, 0), recipe)
        first, again, other = (torch.cat([p.flatten() for p in m.parameters()]) for m in models)
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


def test_learning_lowers_the_cross_entropy_and_is_watched():
    model, corpus = copying.make("Transformer", 0), copying.letters(400, 3, 0)

    def cross_entropy():
        return score(model, corpus).cross_entropy

    before, recipe = cross_entropy(), Recipe(steps=25, tokens=200, warmup=2, smoothing=0.0)
    seen = learn(model, corpus, recipe, watch=cross_entropy, every=10)
    assert len(seen) == 3  # at 10, 20 and the end
    assert seen[-1] < before
    assert not model.training


def test_greedy_writing_is_that_of_the_package():
    model, corpus = speller(seed=3, n_layers=1), spelling_corpus(20, seed=1)
    learn(model, corpus, Recipe(steps=20, tokens=100, warmup=2))
    source, target = corpus.batch(range(20))
    mine = written(model.eval(), source, target.shape[1] - 1)
    package = greedy(model, source, max_new_tokens=target.shape[1] - 1)
    for a, b in zip(mine.tolist(), package.tolist(), strict=True):
        ends = [row.index(EOS) + 1 if EOS in row else len(row) for row in (a, b)]
        assert a[: ends[0]] == b[: ends[1]]


def test_exact_means_all_of_it():
    class Copier(torch.nn.Module):
        """Writes the source, or all but its last word."""

        def __init__(self, spoil):
            super().__init__()
            self.weight, self.spoil = torch.nn.Parameter(torch.zeros(1)), spoil

        def forward(self, source, target):
            shown = source.clone()
            if self.spoil:
                shown[0, 1] = 9
            return torch.nn.functional.one_hot(shown[:, : target.shape[1]], 40).float()

    corpus = copying.letters(10, 4, 0)
    assert share_exact(Copier(spoil=False), corpus) == 1.0
    assert share_exact(Copier(spoil=True), corpus) == 0.9
    assert score(Copier(spoil=False), corpus).right == 1.0
    assert score(Copier(spoil=True), corpus).right == pytest.approx(0.98)


# --- Sentences --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FITS)
def test_sentences_have_their_length_and_none_is_tested_that_was_trained(kind):
    sentences = Sentences(kind, 60)
    pool = {tuple(row) for row in sentences.pool.source}
    for corpus in (sentences.test, sentences.validation):
        assert len(corpus) == 500
        assert not pool & {tuple(row) for row in corpus.source}
    assert not {tuple(r) for r in sentences.test.source} & {
        tuple(r) for r in sentences.validation.source
    }
    lengths = {len(row) - 1 for row in [*pool, *sentences.test.source]}
    assert {SHORT: max(lengths) <= 5, LONG: min(lengths) >= 9, ANY: len(lengths) > 8}[kind]
    first, again, other = (sentences.training(20, seed).source for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert len(first) == 20


def test_an_unknown_kind_of_sentences_is_refused():
    with pytest.raises(ValueError, match=r"kind: expected .*any length.*, got 'odd'"):
        Sentences("odd", 5)
