"""Tests how a training goes on after a kill, damage, a full disk or its end."""

import copy
import errno
from contextlib import suppress
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import torch
from safetensors.torch import save

from helpers import same_tensors
from helpers.crashes import killed, listed
from helpers.refusals import refusals
from helpers.small_training import RECIPE, quiet, small, stopping_at
from unmasked.storage import files
from unmasked.storage.files import LOCK, held
from unmasked.storage.weights import tensors_of
from unmasked.training.trainer import CHECKPOINT, Trainer


@pytest.fixture
def folder(tmp_path):
    """Makes the folder of a training stopped after step 9 of 12, with a checkpoint of step 8."""
    recipe = replace(RECIPE, steps=np.int64(12))  # JSON has no such number
    with stopping_at(9), pytest.raises(KeyboardInterrupt):
        quiet(small(), recipe, folder=tmp_path / "run", checkpoint_every=4)
    return tmp_path / "run"


def test_killed_before_any_operation_on_the_disk_it_ends_with_the_same_weights(tmp_path):
    """Kills the training while it writes its second checkpoint."""
    folder, whole = tmp_path / "folder", small()
    options = {"recipe": replace(RECIPE, steps=6), "every": 5}
    quiet(whole, **options)
    options["checkpoint_every"] = 2
    with stopping_at(3), pytest.raises(KeyboardInterrupt):
        quiet(small(), **options, folder=folder)
    save, deaths = Trainer.save, []

    def dying(*arguments):
        deaths.extend(killed(folder, lambda: save(*arguments), tmp_path))
        raise KeyboardInterrupt

    with patch.object(Trainer, "save", dying), pytest.raises(KeyboardInterrupt):
        quiet(small(), **options, folder=folder, resume=True)
    assert len(deaths) > 3
    for left in deaths:
        model = small()
        quiet(model, **options, folder=left, resume=True)
        assert same_tensors(tensors_of(model), tensors_of(whole))
        assert listed(left) == [CHECKPOINT]


@pytest.mark.parametrize(
    ("step", "average"), [(0, 0.9), (1, None), (5, 0.9), (8, None), (8, 0.9), (11, None), (12, 0.9)]
)
def test_stopped_between_any_two_steps_it_goes_on_in_the_same_way(tmp_path, step, average):
    """Compares weights and history; some notes cover steps before and after a checkpoint."""
    recipe = replace(RECIPE, average=average)
    options = {"every": 5, "checkpoint_every": 3, "folder": tmp_path}
    model, other = small(), small()
    expected = quiet(model, recipe, every=5)
    with stopping_at(step), suppress(KeyboardInterrupt):
        quiet(small(), recipe, **options)
    torch.manual_seed(99)  # what the next process draws elsewhere does not matter
    history = quiet(other, recipe, **options, resume=True)
    assert same_tensors(tensors_of(model), tensors_of(other))
    for name in ("step", "loss", "norm", "rate"):
        assert history[name] == expected[name]
    assert history["seconds"] == sorted(history["seconds"])


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        (b"", {}, "a checkpoint, got a checkpoint.safetensors that is no safetensors file"),
        (b'5\0\0\0\0\0\0\0{"__metadata__":{"unmasked":"[1]"},"a":{}}', {}, "a checkpoint, got "),
        (save({}, {files.HEAD: '{"format": "x 4"}'}), {}, "'unmasked checkpoint 3', got 'x 4'"),
        (None, {"recipe": replace(RECIPE, average=None)}, "average=0.9, as in .*, got None;"),
        (None, {"model": small(dropout=0.2)}, "dropout=0.1, as in .*, got 0.2;"),
        (None, {"model": small().double()}, "dtype='torch.float32', as .*, got 'torch.float64';"),
    ],
)
def test_what_is_damaged_or_of_another_training_is_not_resumed(folder, content, changes, message):
    file, options = folder / CHECKPOINT, {"model": small(), **changes}
    if content is not None:
        file.write_bytes(content)
    kept, before = file.read_bytes(), copy.deepcopy(tensors_of(options["model"]))
    name = "resume" if changes else "run/checkpoint.safetensors"
    with pytest.raises(ValueError, match=f"{name}: expected {message}"):
        quiet(**options, folder=folder, resume=True)
    with pytest.raises(ValueError, match="folder: expected one without a training in it, got "):
        quiet(small(), folder=folder)
    assert same_tensors(tensors_of(options["model"]), before)
    assert file.read_bytes() == kept


test_what_needs_a_folder_is_refused_without_one = refusals(
    (lambda: quiet(small(), resume=True), "resume: expected a folder for it, got none"),
    (lambda: quiet(small(), checkpoint_every=3), "checkpoint_every: expected a folder for it"),
)


# --- One training at a time -------------------------------------------------------------------


def test_a_second_training_is_refused_while_the_first_goes_on_and_what_was_killed_holds_nothing(
    tmp_path,
):
    (tmp_path / LOCK).write_text("by one that was killed")

    def watch(*_):
        for resume in (False, True):
            with pytest.raises(ValueError, match="got one that writes there now; "):
                quiet(small(), folder=tmp_path, resume=resume)

    quiet(small(), folder=tmp_path, checkpoint_every=2, every=4, watch=watch)
    quiet(small(), folder=tmp_path, resume=True)  # it is free again


def test_a_file_system_without_locks_is_used_as_before(tmp_path, monkeypatch):
    class Never(files.FileLock):
        def _acquire(self):
            raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files, "FileLock", Never)
    with held(tmp_path):
        pass


def test_a_place_that_cannot_be_written_is_refused_before_the_first_step(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"file: no training can be kept here \("):
        quiet(small(), folder=tmp_path / "file", watch=lambda *_: pytest.fail("began"))
