"""Tests that a file of tensors keeps every bit, and is complete whatever interrupts a writing."""

import copy
import errno
import os
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from safetensors import SafetensorError

from helpers import same_tensors, small_model
from helpers.crashes import held, listed, made
from helpers.side_by_side import save_in_turn, together
from unmasked.storage import files
from unmasked.storage.weights import set_tensors, tensors_of


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_every_bit_comes_back(tmp_path, dtype):
    """Checks, too, that the tensors stay the same when the file changes."""
    matrix = torch.randn(3, 4).mul(9).to(dtype)
    number, empty = torch.tensor(3.0).to(dtype), torch.zeros(0, 2).to(dtype)
    kept = {"a": matrix, "turned": matrix.T, "column": matrix[:, 1], "one": number, "no": empty}
    files.write(tmp_path / "w", kept, {"name": "Zoë"})
    read, said = files.read(tmp_path / "w")
    (tmp_path / "w").write_bytes(bytes(4096))
    assert same_tensors(read, kept)
    assert said == {"name": "Zoë"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "post"}, "weights: expected a tensor 'decoder.norm.bias', got none"),
        ({"output_bias": True}, "weights: expected nothing that .*, got 'generator.bias'"),
        ({"d_ff": 7}, r"encoder.*: expected shape \[24, 16\], got \[7, 16\]"),
    ],
)
def test_weights_of_another_model_are_refused_and_change_nothing(changes, message):
    model = small_model(norm="pre")
    before = copy.deepcopy(tensors_of(model))
    with pytest.raises(ValueError, match=f"^{message}"):
        set_tensors(model, tensors_of(small_model(**{"norm": "pre", **changes})))
    assert same_tensors(tensors_of(model), before)


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("unmasked.storage.files.save", SafetensorError("full")),
        ("os.fsync", OSError("full")),
        ("pathlib.Path.replace", KeyboardInterrupt("full")),
    ],
)
def test_a_save_that_fails_leaves_what_was_there(tmp_path, where, error):
    file = tmp_path / "new" / "m.safetensors"
    made("old").save(file)
    said = r"^(full|.*m.safetensors: could not be written \(full\); what was there is whole; .*)$"
    with patch(where, side_effect=error), pytest.raises((OSError, KeyboardInterrupt), match=said):
        made("new").save(file)
    assert listed(file.parent) == ["m.safetensors"]
    assert held(file) == "old"


def test_two_that_save_into_one_file_leave_one_that_loads_also_while_a_third_reads(tmp_path):
    file = tmp_path / "m.safetensors"
    made("old").save(file)
    writers = together(2, save_in_turn, file, join=False)
    read = [held(file)]
    while not writers.join(0):
        read.append(held(file))
    assert held(file) == "new"  # what both saved last
    assert len(read) > 1  # while they wrote


def test_all_is_on_the_disk_before_it_has_its_name_and_folders_where_that_can_be(
    tmp_path, monkeypatch
):
    flushed = []

    def fsync(handle):
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        flushed.append(path.name)
        if path.is_dir():  # not on Windows, nor where a disk is far away
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", fsync)
    files.write(tmp_path / "w", {"a": torch.zeros(1)}, {})
    assert flushed == [".w.unfinished", tmp_path.name]
