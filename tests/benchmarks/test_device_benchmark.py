"""The benchmark of devices: its command, its series, its table; on tiny sizes, and on no GPU."""

import json

import pytest
import torch
from torch.nn import functional as F

import devices
from device_report import table
from device_sizes import SIZES, Kind, Sizes, model

TINY = Sizes(
    model=model(20, d_model=8, n_heads=2, n_layers=1, d_ff=8, max_len=16),
    products=(2, 4),
    precisions=("float32", "bfloat16", "float16"),
    rows=(1, 2),
    length=4,
    lengths=(2, 4),
    tokens=8,
)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    monkeypatch.setitem(SIZES, "cpu", TINY)
    monkeypatch.setattr("unmasked_book.records.RECORDS", tmp_path)
    monkeypatch.setattr(devices, "bandwidth", lambda device: 1e9)
    monkeypatch.setattr(devices.Bench, "backward", lambda bench: ATTENTION)
    monkeypatch.setattr("unmasked_book.machines.seconds.__defaults__", (1, 1e-9))
    return tmp_path


ATTENTION = {"lengths": [2, 4], "milliseconds": {"kernel, float32": [1.0, 2.0]}}


def test_everything_is_measured_and_recorded(tiny, monkeypatch, capsys):
    monkeypatch.setattr(devices.Bench, "memory", lambda _, lengths, __: float(len(lengths)))
    devices.main(["--threads", "1", "--rounds", "1", "--record", "some"])
    result = json.loads((tiny / "some.json").read_text())
    assert result["machine"]["command"].endswith("--threads 1 --rounds 1 --record some")
    assert set(result["products"]) == set(TINY.precisions)
    assert result["rows"]["rows"] == [1, 2]
    sizes = {"rows": (1, 2), "lengths": (4, 2), "ragged": (2,), "short": (2,)}  # rows of a batch
    for series in sizes:
        for kind in result[series]["kinds"].values():
            assert all(time > 0 for time in kind["seconds"])
            assert kind["mebibytes"] == [float(rows) for rows in sizes[series]]
    assert capsys.readouterr().out == table(result) + "\n"


def test_memory_is_measured_in_another_process(monkeypatch):
    """What it is asked and what it answers."""
    asked = []

    class Done:
        stdout = b"12.5\n"

    def run(command, **_):
        asked.append(command)
        return Done

    monkeypatch.setattr(devices.subprocess, "run", run)
    bench = devices.Bench(devices.arguments(["--threads", "3"]))
    assert bench.memory([4, 2], Kind("bfloat16", packed=True)) == 12.5
    assert asked[0][2:4] == ["--threads", "3"]
    monkeypatch.setattr(devices.Bench, "peak", lambda bench, *step: step)
    printed = []
    monkeypatch.setattr("builtins.print", printed.append)
    devices.main(asked[0][2:])
    assert printed == [([4, 2], Kind("bfloat16", packed=True))]


@pytest.mark.usefixtures("tiny")
def test_what_does_not_fit_is_left_out_and_said(monkeypatch):
    def too_large(_, lengths, *__):
        if len(lengths) > 1:
            raise torch.OutOfMemoryError
        return lambda: None

    monkeypatch.setattr(devices, "training_step", too_large)
    monkeypatch.setattr(devices.Bench, "memory", devices.Bench.peak)
    bench = devices.Bench(devices.arguments([]))
    found = bench.series([[4], [4, 4]], [Kind()])["float32"]
    assert found["seconds"][0] > 0
    assert (found["seconds"][1], found["mebibytes"][1]) == (None, None)


def test_explicit_attention_is_the_same():
    bench, found = devices.Bench(devices.arguments([])), []
    for kind in (Kind(), Kind(explicit=True)):
        torch.manual_seed(0)
        with bench.inside(kind):
            found.append(bench.step([5, 3], kind)())
    assert torch.allclose(*found, rtol=1e-4)


def test_the_kernel_is_taken_where_it_is_asked_for(monkeypatch):
    bench, seen = devices.Bench(devices.arguments([])), []
    kernel = F.scaled_dot_product_attention

    def noted(query, *given, **options):
        seen.append(query.dtype)
        return kernel(query, *given, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", noted)
    for kind in (Kind("bfloat16"), Kind("bfloat16", kernel=True)):
        with bench.inside(kind):
            bench.step([5], kind)()
    assert set(seen[: len(seen) // 2]) == {torch.float32}
    assert set(seen[len(seen) // 2 :]) == {torch.bfloat16}
