"""The device is one on which a tensor can be made; the machine is named as it is."""

import torch

import unmasked


def test_it_is_the_accelerator_if_there_is_one(monkeypatch):
    assert torch.ones(2, device=unmasked.device()).sum() == 2
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert unmasked.device() == torch.device("cpu")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("meta"))
    assert unmasked.device() == torch.device("meta")
