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

from helpers import ragged, small_config
from unmasked import Transformer, TransformerConfig, attention
from unmasked.loss import teacher_forcing, translation_loss
from unmasked.plots.picture import COLOURS
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


@pytest.mark.parametrize("name", ["source", "target", "rows"])
def test_sizes_of_nothing_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}: .* at least 1"):
        machines.multiply_adds(small_config(), **{"source": 1, "target": 1, "rows": 1, name: 0})


def test_a_product_by_hand_and_the_lower_of_its_two_limits():
    assert machines.product_operations(2, 3, 4) == 48
    assert (machines.product_bytes(2, 3, 4), machines.product_bytes(2, 3, 4, width=2)) == (104, 52)
    assert [machines.attainable(x, peak=100, bandwidth=20) for x in (0.5, 50)] == [10, 100]


@pytest.mark.parametrize(
    ("norm", "changes"),
    [("post", {}), ("pre", {"d_ff": 96, "n_layers": 3, "n_decoder_layers": 1})],
)
def test_what_a_step_keeps_is_counted_to_a_few_per_cent(norm, changes):
    sizes = {"d_model": 128, "n_heads": 4, "d_ff": 512, "n_layers": 2, "dropout": 0.0} | changes
    config = TransformerConfig(source_vocab=500, target_vocab=700, norm=norm, **sizes)
    model, source, target = Transformer(config), ragged([24] * 16), ragged([21] * 16)

    def loss():
        inputs, labels = teacher_forcing(target)
        return F.cross_entropy(model(source, inputs).flatten(0, 1), labels.flatten())

    counted = machines.kept_numbers(config, 24, 20, 16)
    kept = machines.kept_bytes(loss, model.parameters())
    assert kept == pytest.approx(4 * sum(counted.values()), rel=0.02)
    assert counted["logits"] == 16 * 20 * 700


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


def test_rounding_keeps_the_range_and_counts_bits():
    assert machines.FORMATS["TF32"] == (
        machines.FORMATS["float32"].exponent,
        machines.FORMATS["float16"].fraction,
    )
    largest = torch.tensor([torch.finfo(torch.float32).max, -1e-38])
    assert torch.allclose(machines.rounded(largest.double(), 10), largest.double(), rtol=2**-11)
    assert machines.rounded(largest, 23).equal(largest)
    with pytest.raises(ValueError, match=r"fraction: .* at least 0, got -1"):
        machines.rounded(torch.ones(1), -1)


# --- Timed ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("durations", "options", "expected", "runs"),
    [
        ([100.0, 1.0, 1.0, 9.0, 2.0], {"rounds": 3}, 2.0, 5),  # the first run does not count
        ([0.001], {"rounds": 2, "least": 0.0095}, 0.001, 2 + 2 * 10),  # short runs are repeated
    ],
)
def test_the_median_counts(monkeypatch, durations, options, expected, runs):
    takes, seen = itertools.cycle(durations), [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: sum(seen))
    assert machines.seconds(lambda: seen.append(next(takes)), CPU, **options) == pytest.approx(
        expected
    )
    assert len(seen) == 1 + runs


def test_a_gpu_is_waited_for_before_the_clock_is_read(monkeypatch):
    order = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: order.append("wait"))
    monkeypatch.setattr(time, "perf_counter", lambda: order.append("clock") or len(order))
    machines.timed(lambda: order.append("run"), 2, torch.device("cuda"))
    assert order == ["wait", "clock", "run", "run", "wait", "clock"]
    machines.synchronise(CPU)  # nothing to wait for
    assert len(order) == 6


@pytest.mark.parametrize(
    ("name", "dtype", "inside"),
    [
        ("float32", torch.float32, "highest"),
        ("TF32", torch.float32, "high"),
        ("bfloat16", torch.bfloat16, "highest"),
    ],
)
def test_tf32_is_for_products_of_float32_and_only_within(name, dtype, inside):
    def fails():
        with machines.precision(name) as kind:
            assert (kind, torch.get_float32_matmul_precision()) == (dtype, inside)
            raise RuntimeError

    before = torch.get_float32_matmul_precision()
    with pytest.raises(RuntimeError):
        fails()
    assert torch.get_float32_matmul_precision() == before


def test_products_end_where_they_take_too_long(monkeypatch):
    seen = []

    def fake(run, device, rounds):
        product = run()
        seen.append((product.dtype, tuple(product.shape), device, rounds))
        return 1e-3 * len(product)

    monkeypatch.setattr(machines, "seconds", fake)
    found = machines.products((2, 4, 8), ("float32", "bfloat16"), CPU, rounds=7, patience=0.003)
    expected = {"sizes": [2, 4], "seconds": [2e-3, 4e-3]}
    assert found == {"float32": expected, "bfloat16": expected}
    assert seen[0] == (torch.float32, (2, 2), CPU, 7)
    assert seen[-1] == (torch.bfloat16, (4, 4), CPU, 7)


def test_bandwidth_counts_two_vectors_read_and_one_written(monkeypatch):
    monkeypatch.setattr(machines, "seconds", lambda run, *_: 2.0 if len(run()) == 2**18 else 0.0)
    assert machines.bandwidth(CPU, mebibytes=3) == 3 * 2**20 / 2


def test_a_training_step_trains():
    config = small_config(dropout=0.0)
    run = machines.training_step(config, [5, 3, 1], Recipe(rate=0.01, warmup=1), CPU)
    losses = [float(run()[0]) for _ in range(10)]
    assert losses[-1] < losses[0]
    corpus = run.func.__self__.corpus
    assert corpus.labels() == 9  # as many as words
    assert corpus.batch()[0].shape == (3, 5)


def test_a_step_of_a_search_begins_anew_each_time_and_a_plain_one_is_the_models_own():
    config, draws = small_config(dropout=0.0), torch.Generator().manual_seed(0)
    torch.manual_seed(1)
    plain, lean = (make(config, 1, CPU) for make in (machines.plain_step, machines.decoding_step))
    for run in (plain, lean):
        assert torch.equal(run(), run())
    assert plain().shape == lean().shape == (1, 1, config.target_vocab)
    assert machines.calls(plain).total() > 1.5 * machines.calls(lean).total()
    torch.manual_seed(1)
    model = Transformer(config).eval()
    source = torch.randint(3, config.source_vocab, (1, 8), generator=draws)
    expected = model(source, torch.ones(1, 2, dtype=torch.long))[:, 1:]
    assert torch.allclose(plain()[..., 1:], expected[..., 1:], atol=1e-5)  # padding has -inf


# --- Looked into ------------------------------------------------------------------------------


def test_what_is_kept_is_counted_once_and_without_what_was_there():
    weight, x = torch.randn(5, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    assert machines.kept_bytes(lambda: (x * x[:1]) @ weight.T) == 4 * (3 * 4 + 3 * 4 + 5 * 4)
    assert machines.kept_bytes(lambda: (x * x[:1]) @ weight.T, [weight]) == 4 * (3 * 4 + 3 * 4)
    assert machines.kept_bytes(lambda: x.detach() + 1) == 0
    # What comes later to the place of a graph that is gone at once is told from it:
    assert machines.kept_bytes(lambda: [x.exp() for _ in range(5)].clear()) == 5 * x.nbytes


def test_calls_are_counted_by_name_and_a_profile_says_where_the_time_went(monkeypatch):
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    small, large = torch.ones(2, 2), torch.ones(400, 400)

    def run():
        return large @ large, small.relu().relu()

    assert machines.calls(run) == {"mm": 1, "relu": 2}
    shares = machines.profiled(run, CPU)
    assert next(iter(shares)) == "mm"
    assert "relu" in shares
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert os.environ["KINETO_LOG_LEVEL"] == "99"


# --- What was measured ------------------------------------------------------------------------

MACHINE = {"processor": "Abacus", "threads": 2, "torch": "9.9", "date": "2026-01-02"}
LABELS = {"xlabel": "n", "ylabel": "seconds"}


def test_what_was_measured_in_operations_a_second():
    found = {"float32": {"sizes": [2, 4], "seconds": [1.0, 4.0]}}
    assert machines.speeds(found["float32"]) == [16, 32]
    assert machines.peak(found, "float32") == 32
    config = small_config()
    assert (
        machines.share_of_peak(config, 3, 5, 2.0, 1e6)
        == machines.training_operations(config, 5, 5, 3) / 2e6
    )
    assert machines.exponent([1, 2, 4], [3, 3 * 2**1.5, 3 * 4**1.5]) == pytest.approx(1.5)
    assert machines.where({**MACHINE, "threads": 1}) == "Abacus, 1 thread, torch 9.9, 2026-01-02"


def test_products_stand_under_their_roof():
    n = np.array([6, 600])
    found = {
        "float32": {"sizes": [6, 600], "seconds": list(2 * n**3 / [1e9, 4e10])},
        "bfloat16": {"sizes": [6], "seconds": [2 * 6**3 / 2e9]},
    }
    picture = machines.roofline(found, 1e9, MACHINE, {"a vector": (0.5, 3e8)})
    roof, points, half_roof, half_points, other = (
        line.get_xydata() for line in picture.figure.axes[0].get_lines()
    )
    assert np.allclose(points, [[1, 1], [100, 40]])  # n / 6 operations a byte; 10⁹ a second
    assert np.allclose(half_points, [[2, 2]])  # half the bytes
    assert np.allclose(other, [[0.5, 0.3]])
    assert np.allclose(roof[:, 1], np.minimum(roof[:, 0], 40))
    assert np.allclose(half_roof[:, 1], np.minimum(half_roof[:, 0], 2))
    assert "float32 goes from 1 at n = 6 to 40 at n = 600, at most 40;" in picture.words
    assert "a vector is at 0.3. The slope is 1 GB a second." in picture.words


def test_points_are_joined_and_a_place_is_marked():
    options = {"linear": True, "height": 4.0, "colours": {"a": 3}, "mark": (1500, "here")}
    picture = machines.measured({"a": [1, 20, 30]}, [1, 2, 4000], MACHINE, **LABELS, **options)
    [axis] = picture.figure.axes
    line, mark = axis.get_lines()
    assert np.allclose(line.get_xydata(), [[1, 1], [2, 20], [4000, 30]])
    assert line.get_color() == COLOURS[3]
    assert mark.get_xdata() == [1500, 1500]
    assert (axis.get_xscale(), axis.get_yscale(), axis.get_ylim()[0]) == ("log", "linear", 0)
    assert picture.words.startswith("seconds over n. a, from 1 at 1 to 30 at 4,000; ")
    assert "a vertical line at 1,500: here" in picture.words
    assert picture.words.endswith("Measured on Abacus, 2 threads, torch 9.9, 2026-01-02.")


def test_a_power_is_fitted_to_the_last_points_and_named():
    x, values = [1, 2, 4, 8], {"square": [9, 8, 32, 128], "flat": [3, 3, 3, 3]}
    picture = machines.measured(values, x, MACHINE, **LABELS, fitted=3)
    points, fit, _, flat = (line.get_xydata() for line in picture.figure.axes[0].get_lines())
    assert np.allclose(points, np.column_stack([x, values["square"]]))
    assert np.allclose(fit, [[2, 8], [4, 32], [8, 128]])
    assert np.allclose(flat[:, 1], 3)
    assert "square: grows like n^2.0, from 9 at 1 to 128 at 8" in picture.words
    assert "flat: grows like n^0.0, from 3" in picture.words


def test_lines_of_another_length_are_refused():
    with pytest.raises(ValueError, match="a: expected 3 values, got 2"):
        machines.measured({"a": [1, 2]}, [1, 2, 3], MACHINE, **LABELS)
