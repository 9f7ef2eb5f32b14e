"""What is counted is what PyTorch counts; what is timed and drawn is what is said."""

import itertools
import math
import os
import time

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from helpers import MODELS, ragged, small_config
from unmasked import Transformer, TransformerConfig, attention
from unmasked.loss import teacher_forcing, translation_loss
from unmasked.plots.picture import COLOURS
from unmasked.training.recipe import Recipe
from unmasked_book import machines
from unmasked_book.machines import (
    FORMATS,
    attainable,
    bandwidth,
    calls,
    decoding_step,
    exponent,
    kept_bytes,
    kept_numbers,
    measured,
    multiply_adds,
    peak,
    plain_step,
    precision,
    product_bytes,
    product_operations,
    products,
    profiled,
    roofline,
    rounded,
    seconds,
    share_of_peak,
    speeds,
    synchronise,
    timed,
    training_operations,
    training_step,
    where,
)

# --- Counted ----------------------------------------------------------------------------------

CONFIGS = {
    **{name: small_config(name) for name in MODELS},
    "uneven": small_config(n_layers=3, n_decoder_layers=1, target_vocab=31, output_bias=True),
}


def operations(run):
    """PyTorch's own count; attention must write its weights, or the count leaves it out."""
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_forward_pass_is_what_pytorch_counts(name):
    config = CONFIGS[name]
    model, source, target = Transformer(config).eval(), ragged([7, 7, 7]), ragged([5, 5, 5])
    expected = operations(lambda: model(source, target, need_weights=True))
    assert 2 * sum(multiply_adds(config, 7, 5, 3).values()) == expected


@pytest.mark.parametrize("name", CONFIGS)
def test_a_training_step_is_what_pytorch_counts(name, monkeypatch):
    """Also in the backward pass; without padding, as many logits as words."""
    config = CONFIGS[name]
    monkeypatch.setattr(attention, "fused_attention", explicit)
    model, source, target = Transformer(config), ragged([7, 7, 7]), ragged([6, 6, 6])
    expected = operations(lambda: translation_loss(model, source, target).backward())
    assert training_operations(config, 7, 5, 3) == expected


def explicit(query, key, value, mask, _, scale):
    scores = attention.scaled_scores(query, key, scale)
    return attention.masked_softmax(scores, mask) @ value


def test_each_part_is_named_and_only_one_knows_how_long_a_row_is():
    config = small_config()
    once, twice = (multiply_adds(config, n, n, 12 // n) for n in (3, 6))
    assert twice["scores, means"] == 2 * once["scores, means"]
    assert all(twice[part] == once[part] for part in once if part != "scores, means")


def test_without_attention_each_number_of_a_matrix_is_used_once_a_word():
    config = TransformerConfig.preset("base", source_vocab=37000, target_vocab=37000)
    with torch.device("meta"):
        model = Transformer(config)
    matrices = sum(p.numel() for p in model.parameters() if p.dim() == 2)
    parts = multiply_adds(config, 1, 1)
    assert sum(parts.values()) - parts["scores, means"] == matrices


def test_the_longer_the_rows_the_more_is_attention():
    config = TransformerConfig.preset("base", source_vocab=37000, target_vocab=37000)
    n, matrices = 1000, 63_000_000
    attentions = config.n_layers + 2 * config.decoder_layers
    rule = 6 * matrices * n + 12 * attentions * n * config.d_model * n
    assert training_operations(config, n, n) == pytest.approx(rule, rel=0.002)
    whole = 100_000 * training_operations(config, 25, 25, rows=1000)  # batches of 25,000 tokens
    assert whole < 3.3e18 / 3  # the paper's estimate, from time and hardware


@pytest.mark.parametrize("name", ["source", "target", "rows"])
def test_sizes_of_nothing_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}: expected a whole number of at least 1"):
        multiply_adds(small_config(), **{"source": 1, "target": 1, "rows": 1, name: 0})


def test_a_product_by_hand():
    assert product_operations(2, 3, 4) == 48
    assert product_bytes(2, 3, 4) == 104
    assert product_bytes(2, 3, 4, width=2) == 52


def test_the_lower_of_the_two_limits_holds():
    assert attainable(0.5, peak=100, bandwidth=20) == 10
    assert attainable(50, peak=100, bandwidth=20) == 100


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("changes", [{}, {"d_ff": 96, "n_layers": 3, "n_decoder_layers": 1}])
def test_what_a_step_keeps_is_counted_to_a_few_per_cent(norm, changes):
    sizes = {"d_model": 128, "n_heads": 4, "d_ff": 512, "n_layers": 2, "dropout": 0.0} | changes
    config = TransformerConfig(source_vocab=500, target_vocab=700, norm=norm, **sizes)
    model, source, target = Transformer(config), ragged([24] * 16), ragged([21] * 16)

    def loss():
        inputs, labels = teacher_forcing(target)
        return F.cross_entropy(model(source, inputs).flatten(0, 1), labels.flatten())

    counted = kept_numbers(config, 24, 20, 16)
    assert kept_bytes(loss, model.parameters()) == pytest.approx(
        4 * sum(counted.values()), rel=0.02
    )
    assert counted["logits"] == 16 * 20 * 700


@pytest.mark.parametrize("layers", [(2, 2), (3, 1)])
def test_the_products_of_a_decoding_step_are_those_it_makes(layers):
    sizes = {"n_heads": 4, "d_ff": 96, "dropout": 0.0, "norm": "pre"}
    sizes |= dict(zip(("n_layers", "n_decoder_layers"), layers, strict=True))
    config = TransformerConfig(source_vocab=40, target_vocab=30, d_model=32, **sizes)
    shapes = machines.step_matrices(config, 8)
    made = calls(machines.step_products(config, 8, torch.device("cpu")))
    step = calls(decoding_step(config, 1, torch.device("cpu")))
    products = "mv", "addmv", "mm", "addmm"
    assert sum(made[name] for name in products) == len(shapes) == sum(step[n] for n in products)
    one_layer = 4 * 32**2 + 2 * 4 * 8 * 32 + 2 * 32 * 96
    assert sum(map(math.prod, shapes)) == layers[1] * one_layer + 32 * 30


# --- Floating-point formats -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_the_formats_that_pytorch_has_are_its(name):
    known, ours = torch.finfo(getattr(torch, name)), FORMATS[name]
    assert (ours.step, ours.largest) == (known.eps, known.max)
    assert ours.smallest == known.smallest_normal
    assert 1 + ours.exponent + ours.fraction == known.bits


def test_tf32_reaches_as_far_as_float32_in_the_steps_of_float16():
    assert FORMATS["TF32"].step == FORMATS["float16"].step
    assert FORMATS["TF32"].exponent == FORMATS["float32"].exponent


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_rounding_is_the_conversion_and_back(name):
    ordinary = torch.randn(1000) * 2.0 ** torch.randint(-4, 13, (1000,))
    ordinary = ordinary[ordinary.abs() > 1e-4]  # below, float16 gives up its leading 1
    ties = 1 + torch.arange(8.0) / 2**11
    x = torch.cat([ordinary, ties, -ties, torch.tensor([0.0, 1.0])])
    assert torch.equal(rounded(x, FORMATS[name].fraction), x.to(getattr(torch, name)).float())


def test_rounding_keeps_the_range():
    largest = torch.tensor([torch.finfo(torch.float32).max, -1e-38])
    assert torch.allclose(rounded(largest.double(), 10), largest.double(), rtol=2**-11)
    assert rounded(largest, 23).equal(largest)


def test_bits_are_counted():
    with pytest.raises(ValueError, match="fraction: expected a whole number of at least 0, got -1"):
        rounded(torch.ones(1), -1)


# --- Timed ------------------------------------------------------------------------------------

CPU = torch.device("cpu")


class Clock:
    """Time passes in runs only: each takes what the next of `durations` says."""

    def __init__(self, monkeypatch, durations):
        self.now, self.durations, self.runs = 0.0, itertools.cycle(durations), 0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def run(self):
        self.now += next(self.durations)
        self.runs += 1


def test_the_median_counts_and_the_first_run_does_not(monkeypatch):
    clock = Clock(monkeypatch, [100.0, 1.0, 1.0, 9.0, 2.0])
    assert seconds(clock.run, CPU, rounds=3) == 2.0
    assert clock.runs == 5


def test_short_runs_are_repeated(monkeypatch):
    clock = Clock(monkeypatch, [0.001])
    assert seconds(clock.run, CPU, rounds=2, least=0.0095) == pytest.approx(0.001)
    assert clock.runs == 2 + 2 * 10


def test_a_gpu_is_waited_for_before_the_clock_is_read(monkeypatch):
    order = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: order.append("wait"))
    monkeypatch.setattr(time, "perf_counter", lambda: order.append("clock") or len(order))
    timed(lambda: order.append("run"), 2, torch.device("cuda"))
    assert order == ["wait", "clock", "run", "run", "wait", "clock"]
    synchronise(CPU)  # nothing to wait for
    assert len(order) == 6


def test_tf32_is_for_products_of_float32_and_only_within():
    before = torch.get_float32_matmul_precision()
    for name, dtype, inside in (
        ("float32", torch.float32, "highest"),
        ("TF32", torch.float32, "high"),
        ("bfloat16", torch.bfloat16, "highest"),
    ):
        with precision(name) as kind:
            assert (kind, torch.get_float32_matmul_precision()) == (dtype, inside)
        assert torch.get_float32_matmul_precision() == before
    with pytest.raises(RuntimeError), precision("TF32"):
        raise RuntimeError
    assert torch.get_float32_matmul_precision() == before


def test_products_end_where_they_take_too_long(monkeypatch):
    seen = []

    def fake(run, device, rounds):
        product = run()
        seen.append((product.dtype, tuple(product.shape), device, rounds))
        return 1e-3 * len(product)

    monkeypatch.setattr(machines, "seconds", fake)
    found = products((2, 4, 8), ("float32", "bfloat16"), CPU, rounds=7, patience=0.003)
    expected = {"sizes": [2, 4], "seconds": [2e-3, 4e-3]}
    assert found == {"float32": expected, "bfloat16": expected}
    assert seen[0] == (torch.float32, (2, 2), CPU, 7)
    assert seen[-1] == (torch.bfloat16, (4, 4), CPU, 7)


def test_bandwidth_counts_two_vectors_read_and_one_written(monkeypatch):
    monkeypatch.setattr(machines, "seconds", lambda run, *_: 2.0 if len(run()) == 2**18 else 0.0)
    assert bandwidth(CPU, mebibytes=3) == 3 * 2**20 / 2


def test_a_training_step_trains():
    config = small_config(dropout=0.0)
    run = training_step(config, [5, 3, 1], Recipe(rate=0.01, warmup=1), CPU)
    losses = [float(run()[0]) for _ in range(10)]
    assert losses[-1] < losses[0]
    corpus = run.func.__self__.corpus
    assert corpus.labels(range(3)) == 9  # as many as words
    assert corpus.batch(range(3))[0].shape == (3, 5)


def test_a_decoding_step_begins_anew_each_time():
    run = decoding_step(small_config(dropout=0.0), 3, CPU)
    first = run()
    assert first.shape == (3, 1, small_config().target_vocab)
    assert torch.equal(run(), first)


def test_a_plain_step_begins_anew_each_time_and_makes_more_calls():
    run, lean = (step(small_config(dropout=0.0), 1, CPU) for step in (plain_step, decoding_step))
    assert torch.equal(run(), run())
    assert run().shape == lean().shape
    assert calls(run).total() > 1.5 * calls(lean).total()


def test_a_plain_step_is_the_models_own():
    config, begin = small_config(dropout=0.0), torch.full((3, 2), 1)
    torch.manual_seed(1)
    got = plain_step(config, 3, CPU)()
    torch.manual_seed(1)
    model = Transformer(config).eval()
    source = torch.randint(
        3, config.source_vocab, (3, 8), generator=torch.Generator().manual_seed(0)
    )
    expected = model(source, begin)[:, 1:]
    assert torch.allclose(got[..., 1:], expected[..., 1:], atol=1e-5)  # padding has -inf


# --- Looked into ------------------------------------------------------------------------------


def test_what_is_kept_is_counted_once_and_without_what_was_there():
    weight, x = torch.randn(5, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    assert kept_bytes(lambda: (x * x[:1]) @ weight.T) == 4 * (3 * 4 + 3 * 4 + 5 * 4)
    assert kept_bytes(lambda: (x * x[:1]) @ weight.T, [weight]) == 4 * (3 * 4 + 3 * 4)
    assert kept_bytes(lambda: x.detach() + 1) == 0


def test_a_kept_tensor_is_told_from_one_that_came_later_to_its_place():
    x = torch.randn(1000, requires_grad=True)

    def run():
        for _ in range(5):
            x.exp()  # kept by a graph that is gone at once

    assert kept_bytes(run) == 5 * 4000


def test_calls_are_counted_by_name():
    x = torch.ones(3, 3)
    assert calls(lambda: (x @ x).relu().relu()) == {"mm": 1, "relu": 2}


def test_a_profile_says_where_the_time_went(monkeypatch):
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    small, large = torch.ones(2, 2), torch.ones(400, 400)
    shares = profiled(lambda: (large @ large, small.relu()), CPU)
    assert next(iter(shares)) == "mm"
    assert {"mm", "relu"} <= set(shares)
    assert shares["relu"] < shares["mm"]
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert os.environ["KINETO_LOG_LEVEL"] == "99"


# --- What was measured ------------------------------------------------------------------------


def test_what_was_measured_in_operations_a_second():
    found = {"float32": {"sizes": [2, 4], "seconds": [1.0, 4.0]}}
    assert speeds(found["float32"]) == [16, 32]
    assert peak(found, "float32") == 32
    config = small_config()
    assert share_of_peak(config, 3, 5, 2.0, 1e6) == training_operations(config, 5, 5, 3) / 2e6


def test_the_exponent_of_a_power_is_found():
    assert exponent([1, 2, 4], [3, 3 * 2**1.5, 3 * 4**1.5]) == pytest.approx(1.5)


MACHINE = {"processor": "Abacus", "threads": 2, "torch": "9.9", "date": "2026-01-02"}
ON = "Abacus, 2 threads, torch 9.9, 2026-01-02"
LABELS = {"xlabel": "n", "ylabel": "seconds"}


def lines(axis):
    return [line.get_xydata() for line in axis.get_lines()]


def legend(picture):
    [found] = picture.figure.legends
    assert found.get_title().get_text() == ON
    return [text.get_text() for text in found.get_texts()]


def test_products_stand_under_their_roof():
    n = np.array([6, 600])
    found = {
        "float32": {"sizes": [6, 600], "seconds": list(2 * n**3 / [1e9, 4e10])},
        "bfloat16": {"sizes": [6], "seconds": [2 * 6**3 / 2e9]},
    }
    picture = roofline(found, 1e9, MACHINE)
    [axis] = picture.figure.axes
    roof, points, half_roof, half_points = lines(axis)
    assert np.allclose(points, [[1, 1], [100, 40]])  # n / 6 operations a byte; 10⁹ a second
    assert np.allclose(half_points, [[2, 2]])  # half the bytes
    assert np.allclose(roof[:, 1], np.minimum(roof[:, 0], 40))
    assert np.allclose(half_roof[:, 1], np.minimum(half_roof[:, 0], 2))
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    assert legend(picture) == ["float32", "bfloat16"]
    labels = ["n = 600", "n = 6", "n = 6", "memory", "arithmetic"]
    assert [text.get_text() for text in axis.texts] == labels
    assert "float32 goes from 1 at n = 6 to 40 at n = 600, at most 40;" in picture.words
    assert picture.words.endswith(f"The slope is 1 GB a second. Measured on {ON}.")


def test_points_are_joined_and_their_places_named():
    picture = measured({"a": [1, 20, 30]}, [1, 2, 4000], MACHINE, **LABELS)
    [axis] = picture.figure.axes
    [line] = axis.get_lines()  # one, so that the legend shows its points and its dashes
    assert np.allclose(line.get_xydata(), [[1, 1], [2, 20], [4000, 30]])
    assert "None" not in (line.get_marker(), line.get_linestyle())
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["1", "2", "4,000"]
    assert axis.yaxis.get_major_formatter()(0.05, 0) == "0.05"
    assert axis.yaxis.get_major_formatter()(2000.0, 0) == "2,000"
    assert picture.words == f"seconds over n. a, from 1 at 1 to 30 at 4,000. Measured on {ON}."


def test_a_power_is_fitted_to_the_last_points_and_named():
    x = [1, 2, 4, 8]
    values = {"square": [9, 8, 32, 128], "flat": [3, 3, 3, 3]}
    picture = measured(values, x, MACHINE, **LABELS, fitted=3)
    [axis] = picture.figure.axes
    points, fit, _, flat = lines(axis)
    assert np.allclose(points, np.column_stack([x, values["square"]]))
    assert np.allclose(fit, [[2, 8], [4, 32], [8, 128]])
    assert np.allclose(flat[:, 1], 3)
    assert legend(picture) == ["square: grows like $n^{2.0}$", "flat: grows like $n^{0.0}$"]
    assert picture.words == (
        "seconds over n. square: grows like n^2.0, from 9 at 1 to 128 at 8; flat: grows like "
        f"n^0.0, from 3 at 1 to 3 at 8. Measured on {ON}."
    )


def test_what_was_measured_can_stand_on_a_linear_axis():
    picture = measured({"a": [5, 6]}, [1, 2], MACHINE, **LABELS, linear=True, height=4.0)
    [axis] = picture.figure.axes
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "linear")
    assert axis.get_ylim()[0] == 0
    assert picture.figure.get_figheight() == 4.0


def test_a_place_can_be_marked():
    picture = measured({"a": [1, 20, 30]}, [1, 2, 4000], MACHINE, **LABELS, mark=(1500, "here"))
    [axis] = picture.figure.axes
    assert axis.lines[-1].get_xdata() == [1500, 1500]
    assert "a vertical line at 1,500: here" in str(picture)


def test_a_line_has_the_colour_of_its_name():
    [axis] = measured({"b": [1, 2]}, [1, 2], MACHINE, **LABELS, colours={"b": 3}).figure.axes
    assert {line.get_color() for line in axis.lines} == {COLOURS[3]}


def test_lines_of_another_length_are_refused():
    with pytest.raises(ValueError, match="a: expected 3 values, got 2; give x and each line"):
        measured({"a": [1, 2]}, [1, 2, 3], MACHINE, **LABELS)


def test_one_thread_is_one():
    assert where({**MACHINE, "threads": 1}) == "Abacus, 1 thread, torch 9.9, 2026-01-02"
