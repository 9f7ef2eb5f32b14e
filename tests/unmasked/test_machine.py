"""The device is one on which a tensor can be made; the machine is named as it is."""

import datetime

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
