"""Chapter 12's experiments, in miniature: under equal conditions, and as they were recorded."""

import json
import math
from itertools import pairwise

import pytest
import torch

from unmasked.config import BOS
from unmasked.training.recipe import Recipe, rate_at
from unmasked_book import recorded
from unmasked_book.examples import speller
from unmasked_book.experiments import (
    EXPERIMENTS,
    beyond,
    by_length,
    copying,
    learning,
    reach,
    root_of_width,
    small_data,
    variations,
    verdicts,
    warm_up,
)
from unmasked_book.experiments.learning import ANY, SHORT, Sentences, spelling_corpus
from unmasked_book.experiments.lstm import count_parameters

# --- What is held equal -----------------------------------------------------------------------


def test_models_that_are_compared_have_the_same_size():
    sentences = Sentences(SHORT, 60)
    for group in (
        [small_data.make(kind, sentences, 0.1, 0) for kind in small_data.MODELS],
        [copying.make(kind, 0) for kind in copying.MODELS],
        [by_length.make(kind, 64) for kind in by_length.MODELS],
        [variations.make(change, Sentences(ANY, 60), 0) for change in variations.HEADS.values()],
    ):
        sizes = [count_parameters(model) for model in group]
        assert max(sizes) < 1.02 * min(sizes)


def test_undivided_attention_is_only_that():
    corpus = spelling_corpus(8, seed=0)
    model = speller(seed=0, d_model=16, n_heads=1).double().eval()
    source, target = corpus.batch(range(8))
    divided = model(source, target)
    plain = root_of_width.undivided(model)(source, target)
    assert (divided - plain).abs().max() > 1e-3
    for part in model.modules():
        if isinstance(part, root_of_width.MultiHeadAttention):
            part.query.weight.data /= 4  # √16
            part.query.bias.data /= 4
    assert (model(source, target) - divided).abs().max() < 1e-12


def test_scores_have_the_spread_that_the_chapter_says():
    for width in (16, 256):
        spread = {}
        for kind in (*root_of_width.KINDS, "additive"):
            draws = torch.Generator().manual_seed(0)
            spread[kind] = root_of_width.scores(width, kind, draws).std().item()
        assert spread["divided by √K"] == pytest.approx(1.0, rel=0.1)
        assert spread["not divided"] == pytest.approx(math.sqrt(width), rel=0.1)
        assert spread["additive"] < 0.8


def test_the_softmax_of_equal_scores_looks_at_all_words():
    found = root_of_width.softmax_of(torch.zeros(3, 8))
    assert found["words"] == pytest.approx(8.0)
    weights = torch.full((8,), 1 / 8)
    slope = weights[0] * (torch.eye(8)[0] - weights)  # of one weight, at the scores
    nearly = torch.zeros(3, 8).index_fill(1, torch.tensor([0]), 1e-4)  # so that one is the largest
    found = root_of_width.softmax_of(nearly)
    assert found["gradient"] == pytest.approx(slope.norm().item(), rel=1e-3)
    assert root_of_width.softmax_of(torch.eye(8)[:1] * 100)["words"] == pytest.approx(1.0)


def test_a_loop_waits_at_every_word_and_attention_does_not():
    words_ = torch.randn(1, 9, 4, requires_grad=True)
    state = words_[:, 0]
    lengths = []
    for word in words_.unbind(1):
        state = torch.tanh(state + word)
        lengths.append(by_length.longest_chain(state))
    assert {b - a for a, b in pairwise(lengths)} == {2}
    model = speller(seed=0)
    chains = [by_length.longest_chain(model(*spelling_corpus(1, n, n).batch([0]))) for n in (3, 9)]
    assert chains[0] == chains[1]


def test_threads_are_given_back():
    before = torch.get_num_threads()
    rows = by_length.measure((4,), 16, threads=(1, 2), rounds=1)
    assert [each["threads"] for each in rows] == [1, 1, 2, 2]
    assert torch.get_num_threads() == before


def test_an_lstm_forgets_by_half_and_attention_by_its_share():
    shares = {kind: reach.first_over_last(kind, (4, 16, 32)) for kind in reach.MODELS}
    assert shares["LSTM"][2] < 1e-5
    assert shares["Transformer"][2] > 1e-2
    assert shares["Transformer"][0] > shares["Transformer"][2]


def test_a_gradient_at_a_word_is_that_of_its_embedding():
    model = reach.make("LSTM")
    found = reach.gradients(model, 6)
    assert found.shape == (6,)
    assert (found[1:] > found[:-1]).all()  # the later, the more


# --- Every experiment, small ------------------------------------------------------------------

SMALL = {
    "by-length": {"lengths": (4, 8), "tokens": 16, "threads": (1,), "rounds": 1},
    "copying": {"lengths": (3, 4), "seeds": 2, "steps": 2, "tokens": 30},
    "small-data": {"sizes": (20, 40), "seeds": 2, "steps": 2},
    "root-of-width": {"widths": (4, 8), "seeds": 2, "steps": 2},
    "heads": {"seeds": 2, "steps": 1},
    "positions": {"seeds": 2, "steps": 1},
    "beyond": {"lengths": (9, 10, 11), "seeds": 2, "steps": 2},
    "warm-up": {"seeds": 2, "steps": 2, "layers": 1, "rates": (1e-3, 1e-2)},
}


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(learning, "TESTED", 10)
    monkeypatch.setattr(learning, "POOL", 300)
    monkeypatch.setattr(variations, "PAIRS", 30)


def keys(rows):
    """Those of the rows, and of what they hold for each seed."""
    [found] = {tuple(row) for row in rows}
    inner = [seed for row in rows for seed in row.get("trials", []) if isinstance(seed, dict)]
    return found, {tuple(seed) for seed in inner}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_gives_what_its_verdict_reads(name):
    rows = json.loads(json.dumps(list(EXPERIMENTS[name](**SMALL[name]))))
    recorded_rows = recorded(f"claim-{name}")["rows"]
    assert keys(rows) == keys(recorded_rows)  # what is recorded could be recorded again
    verdict = verdicts.VERDICTS[name](rows)
    assert str(verdict).startswith(f"{verdict.word}:\n")
    assert " ".join(str(verdict).split("\n")[1:]) == verdict.reason
    if "seeds" in SMALL[name]:
        assert all(len(each["trials"]) == 2 for each in rows)


@pytest.mark.usefixtures("quick")
def test_the_best_moment_is_kept_and_not_the_last(monkeypatch):
    cross_entropies = iter([3.0, 1.0, 2.0])

    def fake(model, corpus, tokens=4096):  # noqa: ARG001
        at = next(cross_entropies, 9.0)
        return learning.Score(at, sum(p.sum().item() for p in model.parameters()))

    monkeypatch.setattr(small_data, "score", fake)
    sentences = Sentences(SHORT, 30)
    found = small_data.trial("LSTM", sentences, 30, 0, rate=1e-2, dropout=0.0, steps=3)
    assert (found["validation"], found["step"]) == (1.0, 2)
    again = small_data.make("LSTM", sentences, 0.0, 0)
    short = Recipe(steps=3, rate=1e-2, warmup=1, tokens=640, smoothing=0.0)
    kept = []
    learning.learn(again, sentences.training(30, 0), short, every=1, watch=lambda: kept.append(
        sum(p.sum().item() for p in again.parameters())) or 0.0)  # fmt: skip
    assert found["right"] == pytest.approx(kept[1])


def test_letters_are_their_own_translation():
    corpus = copying.letters(5, 4, 0)
    assert all(t == [BOS, *s] for s, t in zip(corpus.source, corpus.target, strict=True))
    assert {len(row) for row in corpus.source} == {5}


def test_longer_words_are_longer_than_any_in_training(monkeypatch):
    learnt, tested = [], []
    monkeypatch.setattr(beyond, "learn", lambda model, corpus, recipe: learnt.append(corpus))
    monkeypatch.setattr(beyond, "share_exact", lambda model, corpus: tested.append(corpus) or 0.5)
    assert beyond.trial("learned", (3, 12), 0, steps=4, rate=1e-3) == [0.5, 0.5]
    assert {len(word) for word in learnt[0].source} == set(range(3, 10))
    assert [{len(word) for word in corpus.source} for corpus in tested] == [{3}, {12}]


def test_warm_up_of_one_step_is_none(monkeypatch):
    rates = {}

    def learn(model, corpus, recipe):  # noqa: ARG001
        rates[recipe.warmup] = [rate_at(step, recipe, 512) for step in (1, 2, 3)]

    monkeypatch.setattr(warm_up, "learn", learn)
    for warmup in (1, 3):
        warm_up.trial("pre", warmup, 1e-3, 0, layers=1, steps=100)
    assert rates[1][0] == max(rates[1]) == pytest.approx(1e-3)
    assert rates[3] == pytest.approx([1e-3 / 3, 2e-3 / 3, 1e-3])
