"""A training that is killed, damaged, alone or not: what is on the disk, and how it goes on."""

import copy
import errno
import json
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from helpers import same_tensors
from helpers.crashes import killed, listed
from helpers.small_training import RECIPE, quiet, small, small_corpus, stopping_at
from unmasked.storage import checkpoint, lock
from unmasked.storage.files import tensors_of
from unmasked.storage.lock import LOCK, held


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Checkpoints at 4 and 8, of a training to 12; and the weights with which it would end."""
    folder, whole = tmp_path_factory.mktemp("written"), small()
    recipe = replace(RECIPE, steps=np.int64(12))  # JSON has no such number
    with stopping_at(9), pytest.raises(KeyboardInterrupt):
        quiet(small(), recipe, folder=folder, checkpoint_every=4)
    quiet(whole)
    return folder, tensors_of(whole)


@pytest.fixture
def folder(written, tmp_path):
    return Path(shutil.copytree(written[0], tmp_path / "copy"))


def resumed(folder, **options):
    model = small()
    quiet(model, folder=folder, resume=True, **options)
    return tensors_of(model)


# --- Killed -----------------------------------------------------------------------------------


def test_killed_before_any_operation_on_the_disk_it_ends_with_the_same_weights(tmp_path):
    """In the third checkpoint, which has the first deleted."""
    recipe, folder, whole = replace(RECIPE, steps=6), tmp_path / "folder", small()
    options = {"recipe": recipe, "checkpoint_every": 2, "every": 5}
    quiet(whole, recipe, every=5)
    with stopping_at(5), pytest.raises(KeyboardInterrupt):
        quiet(small(), **options, folder=folder)
    save, deaths = checkpoint.save, []

    def dying(*arguments):
        deaths.extend(killed(folder, lambda: save(*arguments), tmp_path))
        raise KeyboardInterrupt

    with patch.object(checkpoint, "save", dying), pytest.raises(KeyboardInterrupt):
        quiet(small(), **options, folder=folder, resume=True)
    events, copies = zip(*deaths, strict=True)
    for left in copies:
        assert same_tensors(resumed(left, **options), tensors_of(whole))
        assert not list(left.glob(".unfinished-*"))
    for event in ("os.mkdir", "open weights", "open state", "os.rename .unf", "os.rename s",
                  "os.remove", "none"):  # fmt: skip
        assert event in " ".join(events)


@pytest.mark.parametrize(
    ("step", "average"), [(0, 0.9), (1, None), (5, 0.9), (8, None), (8, 0.9), (11, None), (12, 0.9)]
)
def test_stopped_between_any_two_steps_it_goes_on_in_the_same_way(tmp_path, step, average):
    """Weights, losses, norms and rates; also of windows that a checkpoint cuts in two; or done."""
    recipe = replace(RECIPE, average=average)
    options = {"every": 5, "checkpoint_every": 3}
    model, other = small(), small()
    expected = quiet(model, recipe, **options)
    with stopping_at(step), suppress(KeyboardInterrupt):
        quiet(small(), recipe, **options, folder=tmp_path)
    torch.manual_seed(99)  # what the next process draws elsewhere does not matter
    history = quiet(other, recipe, **options, folder=tmp_path, resume=True)
    assert same_tensors(tensors_of(model), tensors_of(other))
    for name in ("step", "loss", "norm", "rate"):
        assert history[name] == expected[name]
    assert history["seconds"] == sorted(history["seconds"])


# --- On disk ----------------------------------------------------------------------------------


def test_the_newest_two_are_kept_and_foreign_things_neither_read_nor_deleted(folder):
    newest = folder / "step-00000008"
    names = ["average.safetensors", "optimizer.safetensors", "state.json", "weights.safetensors"]
    assert listed(newest) == names
    state = json.loads((newest / "state.json").read_text())["state"]
    assert (state["step"], state["identity"]["rate"]) == (8, 5e-3)
    (folder / "step-00000004-good").mkdir()
    (folder / "step-00000099").write_text("a file")
    (folder / ".unfinished-step-00000099").mkdir()
    quiet(small(), folder=folder, resume=True, checkpoint_every=1)
    kept = ["step-00000004-good", "step-00000011", "step-00000012", "step-00000099"]
    assert listed(folder) == kept


@pytest.mark.parametrize("folders", [True, False])  # not on Windows, nor where a disk is far away
def test_all_is_on_the_disk_before_it_has_its_name_and_folders_where_that_can_be(
    tmp_path, monkeypatch, folders
):
    flushed = []

    def fsync(handle):
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if path.is_dir() and not folders:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        flushed.append(path)

    monkeypatch.setattr(os, "fsync", fsync)
    checkpoint.save(tmp_path, 1, {"weights": {"a": torch.zeros(1)}}, {"step": 1})
    unfinished = tmp_path / ".unfinished-step-00000001"
    assert set(flushed[:2]) == {unfinished / "state.json", unfinished / "weights.safetensors"}
    assert flushed[2:] == [unfinished, tmp_path][: 2 * folders]
    assert checkpoint.newest(tmp_path).state == {"step": 1}


# --- Damaged ----------------------------------------------------------------------------------


def refused(folder, message, model=None, **changes):
    model = model or small()
    before = copy.deepcopy(tensors_of(model))
    with pytest.raises(ValueError, match=message):
        quiet(model, folder=folder, resume=True, **changes)
    assert same_tensors(tensors_of(model), before)


def test_any_flipped_bit_is_found(folder):
    """In many bytes of each file."""
    for file in sorted((folder / "step-00000008").iterdir()):
        right, meant = file.read_bytes(), checkpoint.newest(folder).state
        for place in range(0, len(right), len(right) // (300 if file.suffix == ".json" else 30)):
            wrong = bytearray(right)
            wrong[place] ^= 1 << (place % 7)
            file.write_bytes(wrong)
            with suppress(ValueError):
                assert checkpoint.newest(folder).state == meant  # a float's last digit
        file.write_bytes(right)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("weights.safetensors", b"", "got weights.safetensors with another sum"),
        ("state.json", b"[" * 100_000, "got state.json: maximum recursion"),
        ("state.json", b'{"format": "unmasked 1"}', "checkpoint 2', got 'unmasked 1'"),
    ],
)
def test_what_is_damaged_or_not_ours_is_refused_until_it_is_deleted(
    written, folder, name, content, message
):
    newest = folder / "step-00000008"
    (newest / name).write_bytes(content)
    refused(folder, rf"step-00000008: expected .*{message}.*; .* folder")
    shutil.rmtree(newest)
    assert same_tensors(resumed(folder), written[1])  # from step 4


@pytest.mark.parametrize(
    ("found", "got", "changes"),
    [
        ("average=0.9", "None", {"recipe": replace(RECIPE, average=None)}),
        ("dropout=0.1", "0.2", {"model": small(dropout=0.2)}),
        ("dtype='torch.float32'", "'torch.float64'", {"model": small().double()}),
        ("data='[0-9a-f]{16}'", "'[0-9a-f]{16}'", {"corpus": small_corpus(30)}),
    ],
)
def test_another_training_is_not_resumed(folder, found, got, changes):
    refused(folder, f"resume: expected {found}, as in .*step-00000008, got {got};", **changes)
    with pytest.raises(ValueError, match="folder: expected one without a training in it, got "):
        quiet(small(), folder=folder)
    assert len(checkpoint.checkpoints(folder)) == 2


# --- No room ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("unmasked.storage.checkpoint.write_tensors", SafetensorError("full")),
        ("pathlib.Path.write_text", OSError("full")),
        ("os.rename", OSError("full")),
    ],
)
def test_a_full_disk_leaves_the_last_good_checkpoint(written, folder, where, error):
    no_room = r"copy: checkpoint at step 10 .*not be written \(.*the last whole one is step-0*8; "
    with patch(where, side_effect=error), pytest.raises(OSError, match=no_room):
        quiet(small(), folder=folder, resume=True, checkpoint_every=10)
    assert listed(folder) == ["step-00000004", "step-00000008"]
    assert same_tensors(resumed(folder), written[1])


# --- One training at a time -------------------------------------------------------------------


def test_a_second_training_is_refused_while_the_first_goes_on_and_what_was_killed_holds_nothing(
    tmp_path,
):
    (tmp_path / LOCK).write_text("by one that was killed")
    model, whole = small(), small()

    def watch(*_):
        for resume in (False, True):
            with pytest.raises(ValueError, match="got one that writes there now; "):
                quiet(small(), folder=tmp_path, resume=resume)

    quiet(model, folder=tmp_path, checkpoint_every=2, every=4, watch=watch)
    quiet(whole)
    assert same_tensors(tensors_of(model), tensors_of(whole))
    quiet(small(), folder=tmp_path, resume=True)  # it is free again


def test_a_file_system_without_locks_is_used_as_before(tmp_path, monkeypatch):
    class Never(lock.FileLock):
        def _acquire(self):
            raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "FileLock", Never)
    with held(tmp_path):
        pass


def test_a_place_that_cannot_be_written_is_refused_before_the_first_step(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"file: no training can be kept here \("):
        quiet(small(), folder=tmp_path / "file", watch=lambda *_: pytest.fail("began"))
