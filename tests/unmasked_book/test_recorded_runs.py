"""Recorded runs and the machine they were made on."""

import datetime

import pytest
import torch

from unmasked import hardware
from unmasked_book import recorded
from unmasked_book.records import recorded_names


def test_every_run_says_where_when_and_how():
    assert {"cpu", "engine-cpu", "feed-forward-cpu"} <= set(recorded_names())
    for name in recorded_names():
        machine = recorded(name)["machine"]
        datetime.date.fromisoformat(machine["date"])
        assert machine["command"].startswith("python ")
        assert " /" not in machine["command"]  # a command of the checkout, on any machine
        assert machine["processor"]


def test_an_unknown_run_is_refused_and_the_known_are_named():
    with pytest.raises(ValueError, match=r"^name: expected .*engine-cpu.*, got 'gpu'"):
        recorded("gpu")


def test_the_benchmarks_folder_has_the_same_runs(pytestconfig):
    folder = pytestconfig.rootpath / "benchmarks" / "results"
    assert sorted(path.stem for path in folder.glob("*.json")) == recorded_names()


def test_the_machine_is_this_one():
    found = hardware.machine()
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["date"] <= datetime.datetime.now(datetime.UTC).date().isoformat()


def test_a_gpu_is_named_instead_of_the_processor(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"the GPU of {device}")
    assert hardware.machine("cuda:1")["processor"] == "the GPU of cuda:1"


def test_a_system_that_does_not_list_its_processors(monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "LIST", tmp_path / "none")
    monkeypatch.setattr(hardware.platform, "processor", lambda: "arm")
    found = hardware.machine()
    assert (found["processor"], found["cores"]) == ("arm", None)


def test_cores_are_counted(monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text(
        "model name\t: Fast 3000\nflags\t: a\nmodel name\t: Fast 3000\n"
    )
    monkeypatch.setattr(hardware, "LIST", tmp_path / "cpuinfo")
    found = hardware.machine()
    assert (found["processor"], found["cores"]) == ("Fast 3000", 2)
