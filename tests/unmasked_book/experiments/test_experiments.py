"""Chapter 15's experiments, in miniature: under equal conditions, and as they were recorded."""

import copy
import json
from functools import partial
from itertools import pairwise

import pytest
import torch

from unmasked import MultiHeadAttention
from unmasked_book import recorded
from unmasked_book.examples import speller
from unmasked_book.experiments import (
    EXPERIMENTS,
    beyond,
    by_length,
    captions,
    copying,
    procedure,
    reach,
    root_of_width,
    small_data,
    texts,
    variations,
)
from unmasked_book.experiments.learning import spelling_corpus
from unmasked_book.experiments.lstm import count_multiplied, count_parameters

# --- What is held equal -----------------------------------------------------------------------


def test_models_that_are_compared_have_the_same_size():
    for group in (
        [small_data.make(kind, 300, 0.1, 0) for kind in small_data.MODELS],
        [copying.make(kind, 0) for kind in copying.MODELS],
        [by_length.make(kind, 64) for kind in by_length.MODELS if "multi" not in kind],
        [variations.make(name, 300, 0) for name in variations.HEADS],
        [captions.make(kind, 300, 0, 0.1, n_heads=4) for kind in captions.MODELS],
    ):
        sizes = [count_parameters(model) for model in group]
        assert max(sizes) < 1.03 * min(sizes)
    _, lstm, transformer = (by_length.make(kind, 64) for kind in by_length.MODELS)
    assert count_multiplied(lstm) == pytest.approx(count_multiplied(transformer), rel=0.02)


def test_undivided_and_smaller_starts_are_only_that():
    model = speller(seed=0, d_model=16, n_heads=1).double().eval()
    source, target = spelling_corpus(8, seed=0).batch()
    kinds = (root_of_width.DIVIDED, root_of_width.UNDIVIDED, root_of_width.SMALLER)
    divided, undivided, smaller = (
        root_of_width.changed(copy.deepcopy(model), kind)(source, target) for kind in kinds
    )
    assert (divided - undivided).abs().max() > 1e-3
    assert (divided - smaller).abs().max() < 1e-12
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.query.weight.data *= 4  # √16
            part.query.bias.data *= 4
    assert (model(source, target) - undivided).abs().max() < 1e-12


def test_a_loop_waits_at_every_word_and_attention_does_not():
    words_ = torch.randn(1, 9, 4, requires_grad=True)
    state = words_[:, 0]
    lengths = []
    for word in words_.unbind(1):
        state = torch.tanh(state + word)
        lengths.append(by_length.longest_chain(state))
    assert {b - a for a, b in pairwise(lengths)} == {2}
    model = speller(seed=0)
    chains = [by_length.longest_chain(model(*spelling_corpus(1, n, n).batch())) for n in (3, 9)]
    assert chains[0] == chains[1]


def test_an_lstm_forgets_by_half_and_attention_by_its_share():
    shares = {kind: reach.first_over_last(kind, (4, 16, 32)) for kind in reach.MODELS}
    assert shares["LSTM"][2] < 1e-5
    assert shares["Transformer"][2] > 1e-2
    assert shares["Transformer"][0] > shares["Transformer"][2]
    found = reach.gradients(reach.make("LSTM"), 6)
    assert found.shape == (6,)
    assert (found[1:] > found[:-1]).all()  # the later, the more


# --- Every experiment, small ------------------------------------------------------------------

QUICK = {"copying": {"tokens": 80}, "warm-up": {"layers": 1}}
ONE_RUNG = {"rate": (0.004,), "dropout": (0.1,), "forget": (1.0,)}


@pytest.fixture
def quick(monkeypatch):
    """One rung a ladder, one seed, and few sentences, rows and words; captions are made up."""
    monkeypatch.setattr(procedure, "LADDERS", ONE_RUNG)
    monkeypatch.setattr(procedure, "TUNERS", (1000,))
    for name, value in {"POOL": 60, "HELD": 20, "MEASURED": 8, "SUBWORDS": 60}.items():
        monkeypatch.setattr(texts, name, value)
    monkeypatch.setattr(variations, "PAIRS", 30)
    monkeypatch.setattr(copying, "MEASURED", 5)
    monkeypatch.setattr(beyond, "MEASURED", 5)
    few = lambda size, seed: texts.phrasebook(texts.ANY, 30, seed)  # noqa: E731
    monkeypatch.setattr(captions, "captions", few)


def covering(cases):
    """Some of the cases, in which every option has each of its values."""
    seen, some = set(), []
    for case in cases:
        values = {repr(item) for item in case.items()}
        if not values <= seen:
            some.append(case)
            seen |= values
    return some


def small(name):
    experiment = EXPERIMENTS[name]
    return experiment._replace(
        trial=partial(experiment.trial, steps=1, **QUICK.get(name, {})),
        cases=covering(experiment.cases),
        begin={option: ONE_RUNG[option] for option in experiment.begin},
        seeds=1,
    )


def keys(rows):
    """Those of the rows, and of what they hold for each seed."""
    [found] = {tuple(row) for row in rows}
    return found, {tuple(seed) for row in rows for seed in row.get("trials", [])}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_gives_what_its_verdict_reads(name):
    recorded_rows = recorded(f"claim-{name}")["rows"]
    rows = json.loads(json.dumps(list(small(name).rows())))
    assert keys(rows) == keys(recorded_rows)  # what is recorded could be recorded again
    for row, case in zip(recorded_rows, EXPERIMENTS[name].cases, strict=True):
        assert {option: row[option] for option in case} == case
