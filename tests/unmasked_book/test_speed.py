"""The clock is stopped when the work is done, and what is timed is what is said."""

import itertools
import time

import pytest
import torch

from helpers import small_config
from unmasked import speed
from unmasked.training.recipe import Recipe
from unmasked_book.machines import (
    bandwidth,
    precision,
    products,
    seconds,
    synchronise,
    training_step,
)

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
    speed.timed(lambda: order.append("run"), 2, torch.device("cuda"))
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

    monkeypatch.setattr(speed, "seconds", fake)
    found = products((2, 4, 8), ("float32", "bfloat16"), CPU, rounds=7, patience=0.003)
    expected = {"sizes": [2, 4], "seconds": [2e-3, 4e-3]}
    assert found == {"float32": expected, "bfloat16": expected}
    assert seen[0] == (torch.float32, (2, 2), CPU, 7)
    assert seen[-1] == (torch.bfloat16, (4, 4), CPU, 7)


def test_bandwidth_counts_two_vectors_read_and_one_written(monkeypatch):
    monkeypatch.setattr(speed, "seconds", lambda run, *_: 2.0 if len(run()) == 2**18 else 0.0)
    assert bandwidth(CPU, mebibytes=3) == 3 * 2**20 / 2


def test_a_training_step_trains():
    config = small_config(dropout=0.0)
    run = training_step(config, [5, 3, 1], Recipe(rate=0.01, warmup=1), CPU)
    losses = [float(run()[0]) for _ in range(10)]
    assert losses[-1] < losses[0]
    update = run.func
    assert update.corpus.labels(range(3)) == 9  # as many as words
    assert update.corpus.batch(range(3))[0].shape == (3, 5)
