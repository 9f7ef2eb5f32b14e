"""Chapter 12's experiments, in miniature: equal conditions, honest intervals, true verdicts."""

import json
import math
import sys
from itertools import pairwise
from statistics import NormalDist, fmean

import pytest
import torch

import claims as command
from unmasked import plots
from unmasked.config import BOS, EOS
from unmasked.search import greedy
from unmasked.training.recipe import Recipe
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
from unmasked_book.experiments.learning import ANY, FITS, LONG, SHORT, Sentences, spelling_corpus
from unmasked_book.experiments.lstm import count_parameters
from unmasked_book.experiments.statistics import (
    T,
    above,
    difference,
    interval,
    options,
    row,
    trials,
)
from unmasked_book.experiments.verdicts import NO, PARTLY, YES

# --- Intervals ----------------------------------------------------------------------------------


def test_an_interval_is_the_mean_and_t_times_its_error():
    found = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    reach_ = 2.776 * math.sqrt(2.5) / math.sqrt(5)
    assert found == pytest.approx((3.0, 3.0 - reach_, 3.0 + reach_))
    assert str(interval([0.5, 0.7])) == "0.6 (-0.671 to 1.87)"


def test_nineteen_of_twenty_intervals_hold_the_true_mean():
    draws = torch.randn(4000, 5, generator=torch.Generator().manual_seed(0)).tolist()
    held = fmean(each.low <= 0 <= each.high for each in map(interval, draws))
    assert 0.94 < held < 0.96


def test_t_falls_towards_that_of_the_normal_distribution():
    values = [T[n] for n in sorted(T)]
    assert values == sorted(values, reverse=True)
    assert values[-1] > NormalDist().inv_cdf(0.975)


def test_what_both_share_cancels_out():
    a, b = [1.0, 5.0, 9.0, 2.0, 7.0], [0.5, 4.4, 8.6, 1.5, 6.5]
    assert above(a, b)
    assert not above(b, a)
    assert interval(a).low < interval(b).high  # side by side they overlap
    assert difference(a, b).mean == pytest.approx(fmean(a) - fmean(b))


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 11])
def test_too_few_or_too_many_runs_are_refused(values):
    with pytest.raises(ValueError, match="values: expected 2 to 10 of them"):
        interval(values)


def test_runs_with_other_seeds_cannot_be_paired():
    with pytest.raises(ValueError, match="b: expected 2 values, got 3"):
        difference([1.0, 2.0], [1.0, 2.0, 3.0])


def test_intervals_are_drawn_as_they_are_said():
    runs = [[1.0, 2.0, 3.0], [4.0, 4.0, 4.0]]
    picture = plots.intervals({"left": {"a": runs}, "right": {"a": runs}}, [5, 5000],
                              xlabel="pairs", ylabel="nats", log_y=True)  # fmt: skip
    left, right = picture.figure.axes
    assert [text.get_text() for text in left.get_xticklabels()] == ["5", "5,000"]
    assert left.get_yscale() == "log"
    [[bars, caps, _]] = right.containers
    assert bars.get_ydata().tolist() == [2.0, 4.0]
    low, high = (cap.get_ydata()[0] for cap in caps)
    assert (low, high) == pytest.approx(interval(runs[0])[1:])
    assert "left, a: 2 (-0.484 to 4.48) at 5, 4 (4 to 4) at 5000" in picture.words
    with pytest.raises(ValueError, match="a: expected 1 lists, got 2"):
        plots.intervals({"": {"a": runs}}, [5], xlabel="", ylabel="")


# --- One way to learn and to measure ------------------------------------------------------------


def test_the_same_seed_gives_the_same_training_of_either_model():
    recipe = Recipe(steps=4, tokens=60, warmup=1, smoothing=0.0)
    for kind in copying.MODELS:
        models = [copying.make(kind, seed) for seed in (0, 0, 1)]
        for model in models:
            learning.learn(model, copying.letters(50, 5, 0), recipe)
        first, again, other = (torch.cat([p.flatten() for p in m.parameters()]) for m in models)
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


def test_learning_lowers_the_surprise_and_is_watched():
    model, corpus = copying.make("Transformer", 0), copying.letters(400, 3, 0)
    before = learning.score(model, corpus).surprise
    recipe = Recipe(steps=25, tokens=200, warmup=2, smoothing=0.0)
    seen = learning.learn(
        model, corpus, recipe, watch=lambda: learning.score(model, corpus).surprise, every=10
    )
    assert len(seen) == 3  # at 10, 20 and the end
    assert seen[-1] < before
    assert not model.training


def test_greedy_writing_is_that_of_the_package():
    model, corpus = speller(seed=3, n_layers=1), spelling_corpus(20, seed=1)
    learning.learn(model, corpus, Recipe(steps=20, tokens=100, warmup=2))
    source, target = corpus.batch(range(20))
    mine = learning.written(model.eval(), source, target.shape[1] - 1)
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
    assert learning.share_exact(Copier(spoil=False), corpus) == 1.0
    assert learning.share_exact(Copier(spoil=True), corpus) == 0.9
    assert learning.score(Copier(spoil=False), corpus).right == 1.0
    assert learning.score(Copier(spoil=True), corpus).right == pytest.approx(0.98)


# --- What is held equal -------------------------------------------------------------------------


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


# --- Every experiment, small --------------------------------------------------------------------

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
    monkeypatch.setattr("unmasked.claims.sentences.TESTED", 10)
    monkeypatch.setattr("unmasked.claims.sentences.POOL", 300)
    monkeypatch.setattr(variations, "PAIRS", 30)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_gives_what_its_verdict_reads(name):
    rows = json.loads(json.dumps(list(EXPERIMENTS[name](**SMALL[name]))))
    verdict = verdicts.VERDICTS[name](rows)
    assert verdict.word in (YES, PARTLY, NO)
    assert str(verdict).startswith(f"{verdict.word}:\n")
    assert " ".join(str(verdict).split("\n")[1:]) == verdict.reason
    if "seeds" in SMALL[name]:
        assert all(len(each["trials"]) == 2 for each in rows)


@pytest.mark.usefixtures("quick")
def test_the_best_moment_is_kept_and_not_the_last(monkeypatch):
    surprises = iter([3.0, 1.0, 2.0])
    scores = {"calls": 0}

    def fake(model, corpus, tokens=4096):  # noqa: ARG001
        scores["calls"] += 1
        at = next(surprises, 9.0)
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


def test_longer_words_are_new_words():
    found = beyond.trial("sinusoidal", (3, 12), 0, steps=1, rate=1e-3)
    assert found == [0.0, 0.0]


def test_warm_up_of_one_step_is_none():
    same = [warm_up.trial("pre", warmup, 1e-3, 0, layers=1, steps=3) for warmup in (1, 3)]
    assert same[0] != same[1]


# --- Verdicts -----------------------------------------------------------------------------------


def made(values, **where):
    """A row whose trials measured so much, with a little spread."""
    spread = (0.0, 0.01, -0.01, 0.005, -0.005)
    return {**where, "trials": [dict.fromkeys(("right", "surprise"), values + s) for s in spread]}


def judged(name, rows):
    return verdicts.VERDICTS[name](rows).word


@pytest.mark.parametrize(("seconds", "word"), [((2, 3), YES), ((0.5, 3), PARTLY), ((0.5, 0.9), NO)])
def test_verdict_by_length(seconds, word):
    rows = [
        {"threads": 2, "length": n, "model": model, "seconds": s if model != "Transformer" else 1.0}
        for n, s in zip((8, 16), seconds, strict=True)
        for model in by_length.MODELS
    ]
    assert judged("by-length", rows) == word


@pytest.mark.parametrize(
    ("right", "word"), [((0.2, 0.5, 0.9), YES), ((0.2, 0.88, 0.9), PARTLY), ((0.9, 0.5, 0.2), NO)]
)
def test_verdict_copying(right, word):
    rows = [made(r, letters=9, model=m) for r, m in zip(right, copying.MODELS, strict=True)]
    assert judged("copying", rows) == word


@pytest.mark.parametrize(
    ("gains", "word"),
    [((0.3, -0.3), YES), ((0.3, 0.3), PARTLY), ((0.3, 0.0), PARTLY), ((-0.3, 0.3), NO)],
)
def test_verdict_small_data(gains, word):
    rows = [made(1.0 + (gain if model == "Transformer" else 0.0), sentences=s, pairs=n, model=model)
            for s in (SHORT, LONG) for n, gain in zip((10, 99), gains, strict=True)
            for model in small_data.MODELS]  # fmt: skip
    assert judged("small-data", rows) == word


@pytest.mark.parametrize(
    ("gains", "word"), [((0.1, 0.5), YES), ((0.0, 0.5), PARTLY), ((0.5, 0.0), NO)]
)
def test_verdict_root_of_width(gains, word):
    rows = [made(0.2 + (gain if kind == "divided by √K" else 0.0), width=k, kind=kind)
            for k, gain in zip((4, 8), gains, strict=True)
            for kind in root_of_width.KINDS]  # fmt: skip
    assert judged("root-of-width", rows) == word


@pytest.mark.parametrize(
    ("surprise", "word"), [((1, 0.5, 0.6), YES), ((1, 0.5, 1), PARTLY), ((1, 1, 2), NO)]
)
def test_verdict_heads(surprise, word):
    names = ("1 head", "2 heads", "4 heads")
    rows = [made(s, variation=name) for s, name in zip(surprise, names, strict=True)]
    assert judged("heads", rows) == word


@pytest.mark.parametrize(("gap", "word"), [(0.0, YES), (0.5, NO)])
def test_verdict_positions(gap, word):
    rows = [made(1.0, variation="sinusoidal"), made(1.0 + gap, variation="learned")]
    assert judged("positions", rows) == word


@pytest.mark.parametrize(
    ("shares", "word"), [((0.4, 0.3), YES), ((0.4, 0.0), PARTLY), ((0.0, 0.0), NO)]
)
def test_verdict_beyond(shares, word):
    rows = [
        {"positions": "sinusoidal", "lengths": [9, 10, 11],
         "trials": [[1.0, *(s + d if s else s for s in shares)] for d in (0, 0.01, -0.01)]},
        {"positions": "learned", "lengths": [9, 10, 11], "trials": [[1.0, 0.0, 0.0]] * 3},
    ]  # fmt: skip
    assert judged("beyond", rows) == word
    reason = verdicts.beyond(rows).reason
    assert ("no clear difference at 11 letters" in reason) == (word == PARTLY)


@pytest.mark.parametrize(
    ("post", "pre", "word"),
    [((0.4, 0.4), (0.0, 0.0), YES), ((0.0, 0.4), (0.0, 0.0), PARTLY),
     ((0.4, 0.4), (0.0, 0.4), PARTLY), ((0.0, 0.0), (0.4, 0.4), NO)],
)  # fmt: skip
def test_verdict_warm_up(post, pre, word):
    rows = [made(0.2 + (gain if warmup > 1 else 0.0), norm=norm, warmup=warmup, rate=rate)
            for norm, gains in (("post", post), ("pre", pre)) for warmup in (1, 50)
            for rate, gain in zip((1e-3, 1e-2), gains, strict=True)]  # fmt: skip
    assert judged("warm-up", rows) == word


@pytest.mark.parametrize(("times", "memory", "word"), [(2, 2, YES), (2, 1, PARTLY), (1, 1, NO)])
def test_verdict_squared(times, memory, word):
    lengths = [64, 128, 256, 512]
    scaling = {"seconds": {kind: [n**times for n in lengths] for kind in ("explicit", "fused")},
               "mebibytes": {"explicit": [n**2 if times > 1 else n for n in lengths],
                             "fused": [n**memory for n in lengths]}}  # fmt: skip
    assert verdicts.squared(scaling, lengths).word == word


def test_a_row_is_named_by_what_only_it_has():
    rows = [made(1.0, size=1, kind="a"), made(2.0, size=2, kind="a")]
    assert trials(rows, "right", size=2)[0] == 2.0
    assert options(rows, "size") == [1, 2]
    with pytest.raises(ValueError, match="where: expected one row, got 2 with"):
        row(rows, kind="a")


# --- The command --------------------------------------------------------------------------------


def test_the_command_stores_what_was_measured_and_on_what(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setattr(command, "EXPERIMENTS", {"heads": lambda: iter([{"a": 1}, {"a": 2}])})
    monkeypatch.setattr(sys, "argv", ["claims.py", "heads"])
    command.main()
    kept = json.loads((tmp_path / "claim-heads.json").read_text())
    assert kept["rows"] == [{"a": 1}, {"a": 2}]
    assert kept["machine"]["command"] == "python benchmarks/claims.py heads"
    assert kept["machine"]["torch"] == torch.__version__
    assert "2 rows are in" in capsys.readouterr().out


def test_the_command_measures_time_on_a_device_and_nothing_else(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setattr(
        command,
        "EXPERIMENTS",
        {"by-length": lambda device: iter([{"on": device, "threads": 2}]), "heads": None},
    )
    monkeypatch.setattr(sys, "argv", ["claims.py", "by-length"])
    command.main()
    kept = json.loads((tmp_path / "claim-by-length.json").read_text())
    assert kept["rows"] == [{"on": "cpu", "threads": 2}]
    assert kept["machine"]["threads"] == 2
    monkeypatch.setattr(sys, "argv", ["claims.py", "heads", "--device", "cuda"])
    with pytest.raises(SystemExit):
        command.main()
    assert "--device is for by-length" in capsys.readouterr().err
