"""Chapter 14's experiments, in miniature: under equal conditions, and as they were recorded."""

import copy
import json
import math
from functools import partial
from itertools import pairwise

import pytest
import torch

from unmasked import MultiHeadAttention, Transformer, TransformerConfig
from unmasked.positions import LearnedPositions, sinusoids
from unmasked.tokens import BOS
from unmasked.training.recipe import Recipe, rate_at
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
    verdicts,
    warm_up,
)
from unmasked_book.experiments.learning import Score, learn, spelling_corpus
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


def test_multiplications_are_held_equal_where_it_is_said():
    _, lstm, transformer = (by_length.make(kind, 64) for kind in by_length.MODELS)
    assert count_multiplied(lstm) == pytest.approx(count_multiplied(transformer), rel=0.02)
    width, words = 8, 20  # two attentions of four matrices, two layers' feed-forward, the output
    small = Transformer(TransformerConfig(source_vocab=words, target_vocab=words, d_model=width,
                                          n_heads=2, n_layers=1, d_ff=16))  # fmt: skip
    assert count_multiplied(small) == 12 * width**2 + 4 * width * 16 + width * words


@pytest.fixture
def spelled():
    """A model and a batch of words; and one that is not divided, or whose start is smaller."""
    model = speller(seed=0, d_model=16, n_heads=1).double().eval()
    source, target = spelling_corpus(8, seed=0).batch()

    def logits(kind=None):
        changed = root_of_width.changed(copy.deepcopy(model), kind) if kind else model
        return changed(source, target), changed.encoder.layers[0].self_attention.query.weight

    return model, logits


def test_undivided_attention_is_only_that(spelled):
    model, logits = spelled
    divided, _ = logits()
    undivided, _ = logits(root_of_width.UNDIVIDED)
    assert (divided - undivided).abs().max() > 1e-3
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.query.weight.data *= 4  # √16
            part.query.bias.data *= 4
    assert (logits()[0] - undivided).abs().max() < 1e-12


def test_with_the_smaller_start_the_first_step_is_that_of_the_divided_model(spelled):
    _, logits = spelled
    first, second = logits(root_of_width.DIVIDED), logits(root_of_width.SMALLER)
    assert (first[0] - second[0]).abs().max() < 1e-12
    assert (first[1].norm() / second[1].norm()).item() == pytest.approx(2.0)  # fourth root of 16


def test_a_table_at_the_scale_of_sinusoids_has_it():
    squares = {}
    for kind in variations.POSITIONS:
        model = variations.make(kind, 30, 0)
        parts = [p for p in model.modules() if isinstance(p, LearnedPositions)]
        squares[kind] = [part.table.square().mean().item() for part in parts]
    assert squares[variations.SINUSOIDAL] == []
    assert squares[variations.SCALED] == pytest.approx([0.5, 0.5])
    assert max(squares[variations.LEARNED]) < 0.03
    assert sinusoids(0, 64, 64).square().mean().item() == pytest.approx(0.5)


@pytest.mark.parametrize("width", [16, 256])
def test_scores_have_the_spread_that_the_chapter_says(width):
    spread = {}
    for kind in (*root_of_width.KINDS, "additive"):
        draws = torch.Generator().manual_seed(0)
        spread[kind] = root_of_width.scores(width, kind, draws).std().item()
    assert spread["divided by √K"] == pytest.approx(1.0, rel=0.1)
    assert spread["not divided"] == pytest.approx(math.sqrt(width), rel=0.1)
    assert spread["additive"] < 0.8


def test_the_gradient_at_the_queries_is_that_of_a_small_step():
    draws = torch.Generator().manual_seed(0)
    query, key = (x.double() for x in root_of_width.queries_and_keys(4, draws, rows=1, n=3))

    def largest(query):
        return root_of_width.products_of(query, key, root_of_width.DIVIDED).softmax(-1).amax()

    steps = 1e-6 * torch.eye(4, dtype=torch.double)
    slopes = [float(largest(query + step) - largest(query - step)) / 2e-6 for step in steps]
    [gradient] = torch.autograd.grad(largest(query.requires_grad_()), query)
    assert gradient.flatten().tolist() == pytest.approx(slopes, abs=1e-6)
    draws.manual_seed(0)
    mean, median = root_of_width.at_queries(64, root_of_width.DIVIDED, draws)
    assert 0 < median < mean < 1


def test_the_softmax_of_equal_scores_looks_at_all_words():
    assert root_of_width.softmax_of(torch.zeros(3, 8))["words"] == pytest.approx(8.0)
    assert root_of_width.softmax_of(torch.eye(8)[:1] * 100)["words"] == pytest.approx(1.0)
    weights = torch.full((8,), 1 / 8)
    slope = weights[0] * (torch.eye(8)[0] - weights)  # of one weight, at the scores
    nearly = torch.zeros(3, 8).index_fill(1, torch.tensor([0]), 1e-4)  # so that one is the largest
    found = root_of_width.softmax_of(nearly)
    assert found["gradient"] == pytest.approx(slope.norm().item(), rel=1e-3)


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
    """One rung a ladder, two seeds, and few sentences, rows and words; captions are made up."""
    monkeypatch.setattr(procedure, "LADDERS", ONE_RUNG)
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
        seeds=2,
    )


def keys(rows):
    """Those of the rows, and of what they hold for each seed."""
    [found] = {tuple(row) for row in rows}
    return found, {tuple(seed) for row in rows for seed in row.get("trials", [])}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_gives_what_its_verdict_reads(name):
    experiment, recorded_rows = EXPERIMENTS[name], recorded(f"claim-{name}")["rows"]
    rows = json.loads(json.dumps(list(small(name).rows())))
    assert keys(rows) == keys(recorded_rows)  # what is recorded could be recorded again
    for row, case in zip(recorded_rows, experiment.cases, strict=True):
        assert {option: row[option] for option in case} == case
        assert len(row["trials"]) == experiment.seeds
    if name in verdicts.VERDICTS:
        verdict = verdicts.VERDICTS[name](recorded_rows)
        assert verdict.word in {verdicts.YES, verdicts.PARTLY, verdicts.NO}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_best_rate_of_every_record_is_inside_those_tried(name):
    for row in recorded(f"claim-{name}")["rows"]:
        for option, losses in row["tried"].items():
            tried = sorted(losses, key=float)
            best = tried.index(f"{row[option]:g}")
            assert losses[tried[best]] == min(losses.values())
            ladder = [f"{rung:g}" for rung in procedure.LADDERS[option]]
            assert best > 0 or tried[0] == ladder[0]
            assert best < len(tried) - 1 or tried[-1] == ladder[-1]


def test_what_is_timed_gives_what_its_verdict_reads_and_threads_are_given_back(monkeypatch):
    def once(run, *_):
        run()
        return torch.get_num_threads() / 2

    monkeypatch.setattr(by_length, "seconds", once)
    before = torch.get_num_threads()
    rows = list(by_length.measure((4, 8), 16, threads=(1, 2), rounds=1))
    assert [each["seconds"] for each in rows] == [0.5] * 6 + [1.0] * 6
    assert torch.get_num_threads() == before
    assert keys(json.loads(json.dumps(rows))) == keys(recorded("claim-by-length")["rows"])
    assert verdicts.by_length(rows).word == verdicts.UNTESTED


def test_letters_are_their_own_translation_and_amid_blanks_the_same():
    alone, amid = (copying.letters(200, 8, 0, blanks) for blanks in (0, copying.BLANKS))
    for (short, target), (row, same) in zip(alone.pairs, amid.pairs, strict=True):
        assert same == target == [BOS, *short]
        assert (len(short), len(row)) == (9, 65)
        assert row[28:36] == short[:-1]
    for corpus, blanks in ((alone, 0), (amid, copying.BLANKS)):
        batches = corpus.epoch(0, copying.tokens_a_step(blanks), 0)
        assert {len(batch) for batch in batches} == {copying.ROWS}  # as many rows in a step


def test_longer_words_are_longer_than_any_in_training(monkeypatch):
    learnt, tested = [], []
    monkeypatch.setattr(beyond, "learn", lambda model, corpus, recipe: learnt.append(corpus))
    monkeypatch.setattr(beyond, "share_exact", lambda model, corpus: tested.append(corpus) or 0.5)
    monkeypatch.setattr(beyond, "score", lambda model, corpus: Score(1.0, 0.0))
    found = beyond.trial(positions="learned", lengths=(3, 12), seed=0, steps=4, rate=1e-3)
    assert found == {"validation": 1.0, "exact": [0.5, 0.5]}
    assert {len(word) for word, _ in learnt[0].pairs} == set(range(3, 10))
    assert [{len(word) for word, _ in corpus.pairs} for corpus in tested] == [{3}, {12}]


def test_warm_up_of_one_step_is_none(monkeypatch):
    rates = {}

    def learn(model, corpus, recipe):  # noqa: ARG001
        rates[recipe.warmup] = [rate_at(step, recipe, 512) for step in (1, 2, 3)]

    monkeypatch.setattr(warm_up, "learn", learn)
    for warmup in (1, 3):
        options = {"clip": None, "rate": 1e-3, "seed": 0, "layers": 1, "steps": 100}
        warm_up.trial(norm="pre", warmup=warmup, **options)
    assert rates[1][0] == max(rates[1]) == pytest.approx(1e-3)
    assert rates[3] == pytest.approx([1e-3 / 3, 2e-3 / 3, 1e-3])


def test_smaller_steps_with_the_smaller_start_are_the_division():
    """For Adam, up to its epsilon: after some steps both models compute nearly the same."""
    corpus = spelling_corpus(100, seed=0)
    source, target = corpus.batch(corpus.pairs[:20])

    def logits(kind):
        model = root_of_width.changed(speller(d_model=16, n_heads=1), kind).double()
        recipe = Recipe(steps=6, rate=0.01, warmup=1, tokens=200, smoothing=0.0, clip=None)
        learn(model, corpus, recipe, factors=root_of_width.factors(model, kind))
        return model(source, target[:, :-1]).detach()

    divided = logits(root_of_width.DIVIDED)
    slower, smaller = (
        (logits(kind) - divided).abs().max()
        for kind in (root_of_width.SLOWER, root_of_width.SMALLER)
    )
    assert slower < 1e-3 < 1e-2 < smaller


def test_open_gates_reach_the_model(monkeypatch):
    seen = []
    monkeypatch.setattr(copying, "open_forget_gates", lambda _, bias: seen.append(bias))
    tiny = {"letters_a_row": 3, "rate": 1e-3, "seed": 0, "steps": 1, "tokens": 20}
    copying.trial(model="LSTM with attention", forget=2.0, **tiny)
    copying.trial(model="LSTM with attention", **tiny)
    assert seen == [2.0]
