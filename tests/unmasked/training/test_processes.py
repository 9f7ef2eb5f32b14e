"""Tests that several processes give the loss and the weights of one process."""

import json

import pytest
import torch
from safetensors.torch import load_file

from helpers import difference, same_tensors, side_by_side
from helpers.side_by_side import together
from unmasked.storage.weights import tensors_of
from unmasked.training.processes import processes
from unmasked.training.trainer import CHECKPOINT, read_checkpoint

GPU, CPU = torch.device("cuda", 3), torch.device("cpu")


def test_three_processes_resume_with_the_same_weights_to_the_last_bit(tmp_path):
    """Uses three processes, because a sum of two numbers does not depend on their order."""
    together(3, side_by_side.resume, tmp_path)
    through = load_file(tmp_path / "through0.safetensors")
    for name in ("resumed0", "resumed1", "resumed2", "through2"):
        assert same_tensors(load_file(tmp_path / f"{name}.safetensors"), through)
    assert read_checkpoint(tmp_path / "checkpoints" / CHECKPOINT)[1]["step"] == 12


def test_two_processes_give_the_losses_and_weights_of_one(tmp_path):
    together(2, side_by_side.trainings, tmp_path)
    assert not (tmp_path / "1").exists()  # only the first process writes
    for name in side_by_side.RECIPES:
        model, expected = side_by_side.trained(name)
        rows = json.loads((tmp_path / f"{name}.json").read_text())
        for column in ("step", "loss", "norm", "rate"):
            values = [row[column] for row in rows]
            assert values == pytest.approx(expected[column], rel=1e-9, abs=1e-12)
        weights = load_file(tmp_path / f"{name}.safetensors")
        assert weights.keys() == tensors_of(model).keys()
        for key, mine in tensors_of(model).items():
            assert difference(weights[key], mine) < 1e-6, key


@pytest.mark.parametrize(
    ("asked", "got", "calls"), [("cuda", GPU, [GPU, ("nccl",), ()]), ("mps", CPU, [("gloo",), ()])]
)
def test_each_process_has_a_gpu_of_its_own_or_shares_the_processor(monkeypatch, asked, got, calls):
    called = []
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", called.append)
    for name in ("init_process_group", "destroy_process_group"):
        monkeypatch.setattr(torch.distributed, name, lambda *kind: called.append(kind))
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 3)
    with processes(asked) as group:
        assert (group.rank, group.count, group.device, group.first) == (3, 4, got, False)
    assert called == calls
    monkeypatch.setenv("LOCAL_RANK", "4")  # more processes than GPUs
    with pytest.raises(ValueError, match=r"^LOCAL_RANK: expected"), processes("cuda"):
        pass
