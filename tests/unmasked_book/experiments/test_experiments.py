"""Chapter 15's experiments, in miniature: under equal conditions, and as they were recorded."""

import copy
import json
from functools import partial

import pytest

from unmasked import MultiHeadAttention
from unmasked_book import recorded
from unmasked_book.examples import speller
from unmasked_book.experiments import EXPERIMENTS, procedure, root_of_width, several_heads, texts
from unmasked_book.experiments.learning import spelling_corpus
from unmasked_book.experiments.lstm import count_parameters


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


def test_many_heads_are_as_large_as_one():
    assert len({count_parameters(several_heads.make(n, 300, 0)) for n in several_heads.HEADS}) == 1


# --- Every experiment, small ------------------------------------------------------------------

QUICK = {"warm-up": {"layers": 1}}
ONE_RUNG = {"rate": (0.004,)}


@pytest.fixture
def quick(monkeypatch):
    """One rung, one seed, and few sentences."""
    monkeypatch.setattr(procedure, "LADDERS", ONE_RUNG)
    monkeypatch.setattr(procedure, "TUNERS", (1000,))
    for name, value in {"POOL": 60, "HELD": 20, "MEASURED": 8, "SUBWORDS": 60}.items():
        monkeypatch.setattr(texts, name, value)
    monkeypatch.setattr(several_heads, "PAIRS", 30)


def keys(rows):
    """Those of the rows, and of what they hold for each seed."""
    [found] = {tuple(row) for row in rows}
    return found, {tuple(seed) for row in rows for seed in row["trials"]}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_recorded_could_be_recorded_again(name):
    experiment, recorded_rows = EXPERIMENTS[name], recorded(f"claim-{name}")["rows"]
    trial = partial(experiment.trial, steps=1, **QUICK.get(name, {}))
    cases = experiment.cases[:2] + experiment.cases[-1:]
    small = experiment._replace(trial=trial, cases=cases, begin=ONE_RUNG, seeds=1)
    assert keys(json.loads(json.dumps(list(small.rows())))) == keys(recorded_rows)
    for row, case in zip(recorded_rows, experiment.cases, strict=True):
        assert {option: row[option] for option in case} == case
