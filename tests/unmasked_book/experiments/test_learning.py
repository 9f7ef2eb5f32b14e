"""One way to learn and to measure, whatever the model; and what is learnt from."""

import pytest
import torch

from unmasked.training.recipe import Recipe
from unmasked_book.examples import LETTERS, speller
from unmasked_book.experiments import learning, several_heads, texts
from unmasked_book.experiments.learning import learn, learn_texts, score, spelling_corpus
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


def test_the_best_moment_is_kept_and_not_the_last(monkeypatch):
    for name, value in {"POOL": 60, "HELD": 20, "MEASURED": 8, "SUBWORDS": 60}.items():
        monkeypatch.setattr(texts, name, value)
    few, losses, weights = texts.phrasebook(30, 0), iter([3.0, 1.0, 2.0]), []

    def fake(model, corpus, tokens=4096):  # noqa: ARG001
        weights.append(sum(p.sum().item() for p in model.parameters()))
        return learning.Score(next(losses, 9.0), weights[-1])

    monkeypatch.setattr(learning, "score", fake)
    recipe = Recipe(steps=3, rate=1e-2, warmup=1, tokens=640, smoothing=0.0)
    model = several_heads.make("1 head", len(few.vocabulary), 0)
    found = learn_texts(model, few, recipe, looks=3)
    assert (found["validation"], found["step"]) == (1.0, 2)
    assert found["right"] == pytest.approx(weights[1]) != pytest.approx(weights[2])
    assert found["nats"] == 9.0 * few.subwords_a_word
