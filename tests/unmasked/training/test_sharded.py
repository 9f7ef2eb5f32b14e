"""A model of which each process keeps a part learns what the whole model learns."""

import json
import os
import runpy
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import parts_side_by_side
import pytest
import torch
from small_training import quiet, small, small_corpus

from helpers import difference, own_lines
from unmasked.storage.files import read_tensors, tensors_of
from unmasked.training.processes import processes
from unmasked.training.recipe import Recipe
from unmasked.training.sharded import main, train_sharded

SCRIPT = Path(parts_side_by_side.__file__)
ALONE = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


@pytest.fixture
def two(monkeypatch):
    """Starts another process as one of two; this one becomes the one with the number given."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **ALONE}
    started = []

    def start(*words, mine):
        other = {**os.environ, **shared, "RANK": str(1 - mine)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([sys.executable, *words], env=other, **pipes))
        for name, value in {**shared, "RANK": str(mine)}.items():
            monkeypatch.setenv(name, value)
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def printed(process):
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    return "\n".join(own_lines(out))


@pytest.mark.parametrize("name", parts_side_by_side.CASES)
def test_two_halves_learn_what_the_whole_learns(name, two, tmp_path, monkeypatch):
    """The losses and the weights; also what is tied, and where a process has no sentence."""
    first = two(SCRIPT, name, tmp_path, mine=1)
    mine = parts_side_by_side.halves(name)
    theirs = json.loads(printed(first))
    monkeypatch.undo()
    config, recipe = parts_side_by_side.CASES[name]
    whole = small(dropout=0.0, **config).double()
    expected = quiet(whole, recipe)["loss"]
    assert mine.losses == theirs["losses"] == pytest.approx(expected, rel=1e-9)
    assert mine.tied
    assert sum(mine.kept) == whole.count_parameters()
    assert max(mine.kept) < 0.6 * whole.count_parameters()
    written = read_tensors(tmp_path / "weights.safetensors")
    assert written.keys() == tensors_of(whole).keys()
    for key, tensor in written.items():
        assert difference(tensor, tensors_of(whole)[key]) < 1e-6, key
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("mine", [0, 1])
def test_the_phrasebook_in_two_halves(mine, two, monkeypatch, capsys):
    """Only the first one prints."""
    words = ["--steps", "2", "--count", "50", "--device", "cpu"]
    other = two("-m", "unmasked.training.sharded", *words, mine=mine)
    monkeypatch.setattr(sys, "argv", ["sharded", *words])
    monkeypatch.delitem(sys.modules, "unmasked.training.sharded")  # it is to run, not to be found
    runpy.run_module("unmasked.training.sharded", run_name="__main__")
    said = [capsys.readouterr().out, printed(other)]
    first, second = said if mine == 0 else reversed(said)
    assert second == ""
    found = json.loads(first)
    assert len(found["loss"]) == 2
    assert sum(found["kept"]) == found["parameters"]


def test_one_process_alone_is_told_how_to_start_two(capsys):
    with pytest.raises(SystemExit):
        main(["--count", "50"])
    assert "torchrun --nproc-per-node 2 -m unmasked.training.sharded" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes",
    [{"accumulate": 2}, {"average": 0.9}, {"packed": True}, {"precision": "bfloat16"},
     {"compile": True}],
)  # fmt: skip
def test_what_the_short_loop_does_not_do_is_refused(changes):
    [name] = changes
    with (
        processes("cpu") as group,
        pytest.raises(ValueError, match=rf"{name}: expected its default, got .*; train\(\) has it"),
    ):
        train_sharded(small(), small_corpus(), replace(Recipe(), **changes), group)
