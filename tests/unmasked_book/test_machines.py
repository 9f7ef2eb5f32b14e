"""What is counted is what PyTorch counts; what is timed and drawn is what is said."""

import itertools
import math
import time
from contextlib import suppress

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from helpers import ragged, small_config
from unmasked import Transformer, TransformerConfig, attention
from unmasked.loss import teacher_forcing, translation_loss
from unmasked.training.recipe import Recipe
from unmasked_book import machines

CPU = torch.device("cpu")

# --- Counted ----------------------------------------------------------------------------------

CONFIGS = {
    "convolutions": small_config("pytorch_walkthrough"),
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
    assert 2 * sum(machines.multiply_adds(config, 7, 5, 3).values()) == expected


@pytest.mark.parametrize("name", CONFIGS)
def test_a_training_step_is_what_pytorch_counts(name, monkeypatch):
    """Also in the backward pass; without padding, as many logits as words."""

    def explicit(query, key, value, mask, _, scale):
        scores = attention.scaled_scores(query, key, scale)
        return attention.masked_softmax(scores, mask) @ value

    monkeypatch.setattr(attention, "fused_attention", explicit)
    model, source, target = Transformer(CONFIGS[name]), ragged([7, 7, 7]), ragged([6, 6, 6])
    expected = operations(lambda: translation_loss(model, source, target).backward())
    assert machines.training_operations(CONFIGS[name], 7, 5, 3) == expected


def test_each_part_is_named_and_only_one_knows_how_long_a_row_is():
    once, twice = (machines.multiply_adds(small_config(), n, n, 12 // n) for n in (3, 6))
    assert twice == {**once, "scores, means": 2 * once["scores, means"]}


def test_the_longer_the_rows_the_more_is_attention():
    config = TransformerConfig.preset("base", source_vocab=37000, target_vocab=37000)
    n, matrices = 1000, 63_000_000
    attentions = config.n_layers + 2 * config.decoder_layers
    rule = 6 * matrices * n + 12 * attentions * n * config.d_model * n
    assert machines.training_operations(config, n, n) == pytest.approx(rule, rel=0.002)
    whole = 100_000 * machines.training_operations(
        config, 25, 25, rows=1000
    )  # batches of 25,000 tokens
    assert whole < 3.3e18 / 3  # the paper's estimate, from time and hardware


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_what_a_step_keeps_is_counted_to_a_few_per_cent(norm):
    sizes = {"d_model": 128, "n_heads": 4, "d_ff": 512, "n_layers": 2, "dropout": 0.0}
    config = TransformerConfig(source_vocab=500, target_vocab=700, norm=norm, **sizes)
    model, source, target = Transformer(config), ragged([24] * 16), ragged([21] * 16)

    def loss():
        inputs, labels = teacher_forcing(target)
        return F.cross_entropy(model(source, inputs).flatten(0, 1), labels.flatten())

    counted = machines.kept_numbers(config, 24, 20, 16)
    kept = machines.kept_bytes(loss, model.parameters())
    assert kept == pytest.approx(4 * sum(counted.values()), rel=0.02)


def test_the_products_of_a_decoding_step_are_those_it_makes():
    config = small_config(n_layers=3, n_decoder_layers=1, dropout=0.0, norm="pre", target_vocab=30)
    shapes = machines.step_matrices(config, 8)
    made = machines.calls(machines.step_products(config, 8, CPU))
    step = machines.calls(machines.decoding_step(config, 1, CPU))
    names = "mv", "addmv", "mm", "addmm"
    assert sum(made[name] for name in names) == len(shapes) == sum(step[name] for name in names)
    assert sum(map(math.prod, shapes)) == 4 * 16**2 + 2 * 4 * 8 * 16 + 2 * 16 * 24 + 16 * 30


# --- Floating-point formats -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_formats_and_rounding_are_pytorchs(name):
    dtype, ours = getattr(torch, name), machines.FORMATS[name]
    known = torch.finfo(dtype)
    found = ours.step, ours.largest, ours.smallest, 1 + ours.exponent + ours.fraction
    assert found == (known.eps, known.max, known.smallest_normal, known.bits)
    ordinary = torch.randn(1000) * 2.0 ** torch.randint(-4, 13, (1000,))
    ordinary = ordinary[ordinary.abs() > 1e-4]  # below, float16 gives up its leading 1
    ties = 1 + torch.arange(8.0) / 2**11
    x = torch.cat([ordinary, ties, -ties, torch.tensor([0.0, 1.0])])
    assert torch.equal(machines.rounded(x, ours.fraction), x.to(dtype).float())


# --- Timed and looked into --------------------------------------------------------------------


def test_the_median_counts_and_the_first_run_does_not(monkeypatch):
    takes, seen = itertools.cycle([100.0, 1.0, 1.0, 9.0, 2.0]), [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: sum(seen))
    assert machines.seconds(lambda: seen.append(next(takes)), CPU, rounds=3) == 2.0


def test_a_gpu_is_waited_for_before_the_clock_is_read(monkeypatch):
    order = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: order.append("wait"))
    monkeypatch.setattr(time, "perf_counter", lambda: order.append("clock") or len(order))
    machines.timed(lambda: order.append("run"), 2, torch.device("cuda"))
    assert order == ["wait", "clock", "run", "run", "wait", "clock"]


@pytest.mark.parametrize(("name", "inside"), [("float32", "highest"), ("TF32", "high")])
def test_tf32_is_for_products_of_float32_and_only_within(name, inside):
    before = torch.get_float32_matmul_precision()
    with suppress(RuntimeError), machines.precision(name) as dtype:
        assert (dtype, torch.get_float32_matmul_precision()) == (torch.float32, inside)
        raise RuntimeError
    assert torch.get_float32_matmul_precision() == before


def test_products_end_where_they_take_too_long_and_bandwidth_is_of_three_vectors(monkeypatch):
    monkeypatch.setattr(machines, "seconds", lambda run, *_: 1e-3 * len(run()))
    found = machines.products((2, 4, 8), ("float32", "bfloat16"), CPU, rounds=7, patience=0.003)
    expected = {"sizes": [2, 4], "seconds": [2e-3, 4e-3]}
    assert found == {"float32": expected, "bfloat16": expected}
    assert machines.speeds(expected) == [2 * 2**3 / 2e-3, 2 * 4**3 / 4e-3]
    assert machines.bandwidth(CPU, mebibytes=3) == pytest.approx(3 * 2**20 / (1e-3 * 2**18))


def test_a_training_step_trains_without_padding_in_its_count():
    config = small_config(dropout=0.0)
    run = machines.training_step(config, [5, 3, 1], Recipe(rate=0.01, warmup=1), CPU)
    losses = [float(run()[0]) for _ in range(10)]
    assert losses[-1] < losses[0]
    assert run.func.__self__.corpus.labels() == 9  # as many as words


def test_a_step_of_a_search_begins_anew_each_time_and_the_lean_one_calls_less():
    config = small_config(dropout=0.0)
    plain, lean = (make(config, 1, CPU) for make in (machines.plain_step, machines.decoding_step))
    for run in (plain, lean):
        assert torch.equal(run(), run())
    assert plain().shape == lean().shape == (1, 1, config.target_vocab)
    assert machines.calls(plain).total() > 1.5 * machines.calls(lean).total()


def test_what_is_kept_is_counted_once_and_without_what_was_there():
    weight, x = torch.randn(5, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    assert machines.kept_bytes(lambda: (x * x[:1]) @ weight.T) == 4 * (3 * 4 + 3 * 4 + 5 * 4)
    assert machines.kept_bytes(lambda: (x * x[:1]) @ weight.T, [weight]) == 4 * (3 * 4 + 3 * 4)
    assert machines.kept_bytes(lambda: x.detach() + 1) == 0
    # What comes later to the place of a graph that is gone at once is told from it:
    assert machines.kept_bytes(lambda: [x.exp() for _ in range(5)].clear()) == 5 * x.nbytes


def test_calls_are_counted_by_name_and_a_profile_says_where_the_time_went():
    small, large = torch.ones(2, 2), torch.ones(400, 400)

    def run():
        return large @ large, small.relu().relu()

    assert machines.calls(run) == {"mm": 1, "relu": 2}
    shares = machines.profiled(run, CPU)
    assert next(iter(shares)) == "mm"
    assert sum(shares.values()) == pytest.approx(1)


# --- What was measured ------------------------------------------------------------------------

MACHINE = {"processor": "Abacus", "threads": 2, "torch": "9.9", "date": "2026-01-02"}


def drawn(picture):
    return [line.get_xydata() for line in picture.figure.axes[0].get_lines()]


def test_products_stand_under_their_roof():
    found = {"float32": {"sizes": [6, 600], "seconds": [2 * 6**3 / 1e9, 2 * 600**3 / 4e10]}}
    picture = machines.roofline(found, 1e9, MACHINE, {"a vector": (0.5, 3e8)})
    roof, points, other = drawn(picture)
    assert np.allclose(points, [[1, 1], [100, 40]])  # n / 6 operations a byte; 10⁹ a second
    assert np.allclose(other, [[0.5, 0.3]])
    assert np.allclose(roof[:, 1], np.minimum(roof[:, 0], 40))


def test_a_power_is_fitted_to_the_last_points_and_a_place_is_marked():
    x, values = [1, 2, 4, 8], {"square": [9, 8, 32, 128]}
    labels = {"xlabel": "n", "ylabel": "seconds", "mark": (5, "here")}
    picture = machines.measured(values, x, MACHINE, **labels, fitted=3)
    points, fit, mark = drawn(picture)
    assert np.allclose(points, np.column_stack([x, values["square"]]))
    assert np.allclose(fit, [[2, 8], [4, 32], [8, 128]])
    assert set(mark[:, 0]) == {5}
    assert "square: grows like n^2.0, from 9 at 1 to 128 at 8" in picture.words
    assert picture.words.endswith("Measured on Abacus, 2 threads, torch 9.9, 2026-01-02.")
