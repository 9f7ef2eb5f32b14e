"""The device is one on which a tensor can be made; the machine is named as it is."""

import datetime

import pytest
import torch

import unmasked
from unmasked import machine


def test_it_is_the_accelerator_if_there_is_one(monkeypatch):
    assert torch.ones(2, device=unmasked.device()).sum() == 2
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert unmasked.device() == torch.device("cpu")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("meta"))
    assert unmasked.device() == torch.device("meta")


def test_the_machine_is_this_one(monkeypatch):
    before = datetime.datetime.now(datetime.UTC).date().isoformat()
    found = machine.machine()
    after = datetime.datetime.now(datetime.UTC).date().isoformat()
    assert found["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert before <= found["date"] <= after
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"the GPU of {device}")
    assert machine.machine("cuda:1")["processor"] == "the GPU of cuda:1"


LISTED = "model name\t: Fast 3000\nflags\t: a\nmodel name\t: Fast 3000\n"


@pytest.mark.parametrize(("listed", "said"), [(LISTED, ("Fast 3000", 2)), (None, ("arm", None))])
def test_processors_are_counted_where_the_system_lists_them(monkeypatch, tmp_path, listed, said):
    monkeypatch.setattr(machine, "LIST", tmp_path / "cpuinfo")
    monkeypatch.setattr(machine.platform, "processor", lambda: "arm")
    if listed:
        machine.LIST.write_text(listed)
    found = machine.machine()
    assert (found["processor"], found["cores"]) == said
