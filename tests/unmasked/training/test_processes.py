"""Several processes share out a batch: the loss and the weights are those of one."""

import json
import os
import socket
import subprocess
import sys

import pytest
import torch

from helpers import difference, same_tensors, side_by_side
from unmasked.machine import device
from unmasked.storage.files import read_tensors, tensors_of
from unmasked.training.processes import processes

ALONE = {
    "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": os.pathsep.join(sys.path),
}  # fmt: skip


def torchrun(count, *arguments):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(count), "-m", "helpers.side_by_side", *arguments]
    options = {"capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run(command, env={**os.environ, **ALONE}, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def check_trainings(folder):
    for name in side_by_side.RECIPES:
        model, expected = side_by_side.trained(name)
        rows = json.loads((folder / f"{name}.json").read_text())
        for column in ("step", "loss", "norm", "rate"):
            values = [row[column] for row in rows]
            assert values == pytest.approx(expected[column], rel=1e-9, abs=1e-12)
        weights = read_tensors(folder / f"{name}.safetensors")
        assert weights.keys() == tensors_of(model).keys()
        for key, mine in tensors_of(model).items():
            assert difference(weights[key], mine) < 1e-6, key


def test_two_processes_give_the_losses_and_weights_of_one(tmp_path):
    """Also where a process has no sentence, and where each computes in parts."""
    torchrun(2, "trainings", tmp_path)
    check_trainings(tmp_path)


def test_three_processes_resume_with_the_same_weights_to_the_last_bit(tmp_path):
    """Three: a sum of two does not depend on its order."""
    torchrun(3, "resume", tmp_path)
    through = read_tensors(tmp_path / "through0.safetensors")
    for name in ("resumed0", "resumed1", "resumed2", "through2"):
        assert same_tensors(read_tensors(tmp_path / f"{name}.safetensors"), through)
    kept = sorted(path.name for path in (tmp_path / "checkpoints").glob("step-*"))
    assert kept == ["step-00000009", "step-00000012"]


def test_two_machines_give_the_losses_and_weights_of_one_process(tmp_path):
    """One launch on several machines: here two "machines" on one, each with its own torchrun."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"]
    command += ["--nproc-per-node", "1", "--rdzv-id", "7", "--rdzv-backend", "c10d"]
    command += ["--rdzv-endpoint", f"localhost:{port}", "-m"]
    command += ["helpers.side_by_side", "trainings", tmp_path]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    environment = {**os.environ, **ALONE}
    nodes = [subprocess.Popen(command, env=environment, **options) for _ in range(2)]
    try:
        for node in nodes:
            said, _ = node.communicate(timeout=120)
            assert node.returncode == 0, said
    finally:
        for node in nodes:
            node.kill()
            node.wait()
    check_trainings(tmp_path)


def test_this_process_as_one_of_two(tmp_path, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **ALONE}
    command = [sys.executable, "-m", "helpers.side_by_side", "trainings", tmp_path]
    first = {**os.environ, **shared, "RANK": "0"}
    with subprocess.Popen(command, env=first, stderr=subprocess.PIPE, text=True) as other:
        for name, value in {**shared, "RANK": "1"}.items():
            monkeypatch.setenv(name, value)
        side_by_side.trainings(tmp_path / "second")
        assert other.wait(60) == 0, other.stderr.read()
    monkeypatch.undo()
    assert not torch.distributed.is_initialized()
    assert not (tmp_path / "second").exists()  # only the first process writes
    check_trainings(tmp_path)


def test_each_process_has_a_gpu_of_its_own(monkeypatch):
    called = []
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", called.append)
    for name in ("init_process_group", "destroy_process_group"):
        monkeypatch.setattr(torch.distributed, name, lambda *kind: called.append(kind))
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 3)
    with processes("cuda") as group:
        assert (group.rank, group.count, group.device) == (3, 4, torch.device("cuda:3"))
        assert not group.first
    assert called == [torch.device("cuda:3"), ("nccl",), ()]


@pytest.mark.parametrize("number", ["1", None])
def test_more_processes_than_gpus_are_refused(number, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    if number is None:
        monkeypatch.delenv("LOCAL_RANK", raising=False)
    else:
        monkeypatch.setenv("LOCAL_RANK", number)
    with (
        pytest.raises(ValueError, match="LOCAL_RANK: expected a number below 1, set by torchrun"),
        processes("cuda"),
    ):
        pass


def test_several_processes_without_a_gpu_share_the_processor(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    called = []
    for name in ("init_process_group", "destroy_process_group"):
        monkeypatch.setattr(torch.distributed, name, lambda *kind: called.append(kind))
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    with processes("mps") as group:
        assert group.device == torch.device("cpu")
    assert called == [("gloo",), ()]


def test_alone():
    with processes("cpu") as group:
        assert (group.rank, group.count, group.device, group.first) == (
            0, 1, torch.device("cpu"), True,
        )  # fmt: skip
        assert group.total(torch.tensor(3.0)) == 3.0
    with processes() as group:
        assert group.device == device()
