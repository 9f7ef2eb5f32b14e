"""One way to learn and to measure, whatever the model; and what is learnt from."""

import pytest
import torch

from unmasked.search import greedy
from unmasked.text.corpus import Corpus
from unmasked.tokens import EOS
from unmasked.training.recipe import Recipe
from unmasked_book.examples import speller
from unmasked_book.experiments import copying, learning, small_data
from unmasked_book.experiments.learning import (
    learn,
    learn_texts,
    nats_of_each,
    score,
    share_exact,
    spelling_corpus,
    written,
)
from unmasked_book.experiments.texts import ANY, phrasebook


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


def test_a_factor_of_zero_leaves_a_parameter_where_it_is():
    model, recipe = speller(n_layers=1), Recipe(steps=3, tokens=100, warmup=1)
    still = model.encoder.layers[0].self_attention.query.weight
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    learn(model, spelling_corpus(20, seed=1), recipe, factors={still: 0.0})
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) == (parameter is still), name


def test_a_factor_multiplies_the_rate():
    recipe, moved = Recipe(steps=1, tokens=100, warmup=1), []
    for factor in (1.0, 0.25):
        model = speller(n_layers=1).double()
        weight = model.encoder.layers[0].self_attention.query.weight
        before = weight.detach().clone()
        learn(model, spelling_corpus(20, seed=1), recipe, factors={weight: factor})
        moved.append(weight.detach() - before)
    assert torch.allclose(moved[1], moved[0] / 4, rtol=1e-6)
    with pytest.raises(ValueError, match="factors: expected parameters of the model"):
        learn(speller(), spelling_corpus(20, seed=1), recipe, factors={weight: 1.0})


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


def test_the_nats_of_each_sentence_make_up_those_of_all():
    model, corpus = speller(seed=0, n_layers=1).eval(), spelling_corpus(30, seed=2)
    each = nats_of_each(model, corpus, tokens=40)
    labels = corpus.labels(range(30))
    assert sum(each) / labels == pytest.approx(score(model, corpus).cross_entropy, rel=1e-5)
    alone = nats_of_each(model, Corpus(corpus.source[7:8], corpus.target[7:8]))
    assert each[7] == pytest.approx(alone[0], rel=1e-5)


def test_the_best_moment_is_kept_and_not_the_last(monkeypatch):
    cross_entropies = iter([3.0, 1.0, 2.0])
    texts = phrasebook(ANY, 30, 0)

    def fake(model, corpus, tokens=4096):  # noqa: ARG001
        at = next(cross_entropies, 9.0)
        return learning.Score(at, sum(p.sum().item() for p in model.parameters()))

    def fresh():
        return small_data.make("LSTM", len(texts.vocabulary), 0.0, 0)

    recipe = Recipe(steps=3, rate=1e-2, warmup=1, tokens=640, smoothing=0.0)
    sums = []
    again = fresh()
    learn(again, texts.training, recipe, every=1, watch=lambda: sums.append(
        sum(p.sum().item() for p in again.parameters())) or 0.0)  # fmt: skip
    monkeypatch.setattr(learning, "score", fake)
    found = learn_texts(fresh(), texts, recipe, looks=3)
    assert (found["validation"], found["step"]) == (1.0, 2)
    assert found["right"] == pytest.approx(sums[1])
    assert found["nats"] == 9.0 * texts.subwords_a_word
