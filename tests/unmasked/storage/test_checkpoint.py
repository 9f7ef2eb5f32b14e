"""A training that is killed, damaged or out of room: what is on the disk, and how it goes on."""

import errno
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import same_tensors
from helpers.small_training import RECIPE, quiet, small, small_corpus
from unmasked.storage import checkpoint
from unmasked.storage.files import tensors_of
from unmasked.storage.lock import LOCK
from unmasked.text.corpus import Corpus
from unmasked.training.recipe import Recipe


class Stopping(Corpus):
    """Gives no more than so many batches, as if the training were killed after them."""

    def __init__(self, batches):
        usual = small_corpus()
        super().__init__(usual.source, usual.target)
        self.left = batches

    def batch(self, numbers, back):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return super().batch(numbers, back)


def listed(folder):
    """But for the lock, which stays where it was made."""
    return sorted(path.name for path in folder.iterdir() if path.name != LOCK)


def whole(recipe=RECIPE):
    model = small()
    return quiet(model, recipe), tensors_of(model)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with checkpoints at 4 and 8, of a training to 12; copy it to change it."""
    folder = tmp_path_factory.mktemp("written")
    torch.set_num_threads(1)
    with pytest.raises(KeyboardInterrupt):
        quiet(small(), corpus=Stopping(9), folder=folder, checkpoint_every=4)
    return folder


@pytest.fixture
def folder(written, tmp_path):
    return Path(shutil.copytree(written, tmp_path / "copy"))


# --- Killed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["kills", "points"])
def test_a_killed_training_ends_with_the_same_weights(tmp_path, mode):
    """More than twenty times at random moments, and before each operation on the disk."""
    command = [
        sys.executable,
        "-m",
        "helpers.crashes",
        mode,
        tmp_path,
        str(random.SystemRandom().randrange(10**6)),
    ]
    own = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **own})
    assert done.returncode == 0, done.stdout + done.stderr
    if mode == "kills":
        assert int(re.findall("killed ([0-9]+) times", done.stdout)[0]) >= 20
    else:
        for operation in (
            "os.mkdir",
            "open weights",
            "open state",
            "os.rename .unf",
            "os.rename s",
        ):
            assert operation in done.stdout
        assert "os.remove" in done.stdout


@pytest.mark.parametrize("average", [None, 0.9])
@pytest.mark.parametrize("step", [0, 1, 5, 8, 11])
def test_stopped_between_any_two_steps_it_goes_on_in_the_same_way(tmp_path, step, average):
    """Weights, losses, norms and rates; also of windows that a checkpoint cuts in two."""
    recipe = Recipe(steps=12, tokens=60, warmup=4, average=average)
    options = {"corpus": small_corpus(), "every": 5, "checkpoint_every": 3}
    model, other = small(), small()
    expected = quiet(model, recipe, **options)
    with pytest.raises(KeyboardInterrupt):
        quiet(small(), recipe, **{**options, "corpus": Stopping(step)}, folder=tmp_path)
    torch.manual_seed(99)  # what the next process draws elsewhere does not matter
    history = quiet(other, recipe, **options, folder=tmp_path, resume=True)
    assert same_tensors(tensors_of(model), tensors_of(other))
    for name in ("step", "loss", "norm", "rate"):
        assert history[name] == expected[name]
    assert history["seconds"] == sorted(history["seconds"])


def test_a_finished_training_is_resumed_without_a_step(tmp_path):
    model, again = small(), small()
    first = quiet(model, folder=tmp_path)
    (tmp_path / ".unfinished-step-00000010").mkdir()  # killed when it was about to delete it
    history = quiet(again, folder=tmp_path, resume=True)
    assert same_tensors(tensors_of(model), tensors_of(again))
    assert history.rows == first.rows
    assert listed(tmp_path) == ["step-00000012"]


def test_the_optimiser_does_not_live_in_a_file_that_will_be_deleted(folder):
    """What safetensors reads is the file's own memory."""
    found = checkpoint.newest(folder)
    for file in found.path.iterdir():
        file.write_bytes(b"\xff" * file.stat().st_size)
    step = found.tensors["optimizer"]["0.step"]
    assert step == 8


# --- On disk --------------------------------------------------------------------------------------


def test_what_is_kept(folder):
    assert listed(folder) == ["step-00000004", "step-00000008"]
    newest = folder / "step-00000008"
    names = ["average.safetensors", "optimizer.safetensors", "state.json", "weights.safetensors"]
    assert sorted(path.name for path in newest.iterdir()) == names
    state = json.loads((newest / "state.json").read_text())["state"]
    assert state["step"] == 8
    assert state["identity"]["rate"] == 5e-3
    quiet(small(), folder=folder, resume=True, checkpoint_every=1)
    assert [path.name for path in checkpoint.checkpoints(folder)] == [
        "step-00000011",
        "step-00000012",
    ]


def test_foreign_things_beside_them_are_neither_read_nor_deleted(folder):
    shutil.copytree(folder / "step-00000004", folder / "step-00000004-good")
    (folder / "step-00000099").write_text("a file")
    (folder / "step-x").mkdir()
    (folder / ".unfinished-step-00000099").mkdir()
    quiet(small(), folder=folder, resume=True, checkpoint_every=1)
    assert listed(folder) == [
        "step-00000004-good", "step-00000011", "step-00000012", "step-00000099", "step-x",
    ]  # fmt: skip


def test_newest_is_by_number(tmp_path):
    for step in (99_999_998, 99_999_999, 100_000_000):
        checkpoint.save(tmp_path, step, {}, {"step": step})
    assert checkpoint.newest(tmp_path).state == {"step": 100_000_000}
    assert checkpoint.checkpoints(tmp_path)[0].name == "step-99999999"


def test_numbers_of_numpy_and_values_that_are_no_numbers_come_back(tmp_path):
    state = {"size": np.int64(3), "mean": np.float32(0.5), "worst": float("inf"), "word": "ü"}
    checkpoint.save(tmp_path, 1, {"empty": {}}, state)
    found = checkpoint.newest(tmp_path)
    assert found.state == {"size": 3, "mean": 0.5, "worst": float("inf"), "word": "ü"}
    assert found.tensors == {"empty": {}}


@pytest.fixture
def flushed(monkeypatch):
    """What was flushed, in order; `flushed.fails` says what cannot be."""
    opened, seen, real_open, real_sync = {}, Flushed(), os.open, os.fsync

    def open_(path, *options, **more):
        handle = real_open(path, *options, **more)
        opened[handle] = Path(path)
        return handle

    def fsync(handle):
        if seen.fails(opened[handle]):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        seen.append(opened[handle])
        real_sync(handle)

    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(os, "fsync", fsync)
    return seen


class Flushed(list):
    fails = staticmethod(lambda path: False)


def test_everything_is_on_the_disk_before_it_has_its_name(tmp_path, flushed):
    checkpoint.save(tmp_path, 1, {"weights": {"a": torch.zeros(1)}}, {})
    unfinished = tmp_path / ".unfinished-step-00000001"
    assert set(flushed[:2]) == {unfinished / "state.json", unfinished / "weights.safetensors"}
    assert flushed[2:] == [unfinished, tmp_path]


def test_a_folder_that_cannot_be_flushed_does_no_harm(tmp_path, flushed):
    """As on Windows, and where the disk is far away."""
    flushed.fails = Path.is_dir
    checkpoint.save(tmp_path, 1, {}, {"step": 1})
    assert checkpoint.newest(tmp_path).state == {"step": 1}
    assert len(flushed) == 1


# --- Damaged --------------------------------------------------------------------------------------


def refused(folder, message, recipe=RECIPE, model=None, corpus=None):
    model = model or small()
    before = {name: x.clone() for name, x in tensors_of(model).items()}
    with pytest.raises(ValueError, match=message):
        quiet(model, recipe, corpus, folder=folder, resume=True)
    assert same_tensors(tensors_of(model), before)


DAMAGE = r"step-00000008: expected a whole checkpoint, got .*delete this folder: the training res"


def test_any_flipped_bit_is_found(folder):
    """In every byte of state.json, and in many of the others."""
    for file in sorted((folder / "step-00000008").iterdir()):
        right, meant = file.read_bytes(), checkpoint.newest(folder).state
        places = range(len(right))
        for place in places if file.name == "state.json" else places[:: len(right) // 40]:
            wrong = bytearray(right)
            wrong[place] ^= 1 << (place % 7)
            file.write_bytes(wrong)
            answer = answered(folder)
            if answer != meant:  # the last digit of a float may mean nothing
                assert "step-00000008: expected" in answer
                assert "folder" in answer
        file.write_bytes(right)


def answered(folder):
    try:
        return checkpoint.newest(folder).state
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("name", ["state.json", "weights.safetensors", "optimizer.safetensors"])
@pytest.mark.parametrize("left", ["nothing", "half", "nearly all", None])
def test_what_is_cut_off_or_missing_is_found(folder, name, left):
    file = folder / "step-00000008" / name
    size = file.stat().st_size
    if left is None:
        file.unlink()
    else:
        os.truncate(file, {"nothing": 0, "half": size // 2, "nearly all": size - 2}[left])
    refused(folder, DAMAGE)
    shutil.rmtree(file.parent)  # as the message says
    model = small()
    quiet(model, folder=folder, resume=True)
    assert same_tensors(tensors_of(model), whole()[1])


def sealed(kept):
    """With the right sum, as somebody may write it by hand."""
    kept = {"format": checkpoint.FORMAT, **kept}
    return json.dumps({**kept, "sum": checkpoint.seal(kept)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "state.json: Expecting property name"),
        ("\0\0\0", "state.json: Expecting value"),
        (b"\xff\xfe", "state.json: 'utf-8' codec"),
        ("{}", "got None; it is of another version or program, or damaged: choose another"),
        ("[1]", r"got \[1\]; it is of another"),
        ("3", "got 3; it is of another"),
        ('{"format": "unmasked checkpoint 0"}', "got 'unmasked checkpoint 0'; it is of another"),
        ('{"format": "unmasked checkpoint 2"}', "state.json with another sum"),
        (sealed({"sums": [1], "state": {}}), "state.json without sums or a state"),
        (sealed({"sums": {}, "state": 5}), "state.json without sums or a state"),
        ("[" * 100_000, "state.json: maximum recursion"),
        ('{"format": "unmasked checkpoint 1"}', "'unmasked checkpoint 2', got"),  # of version 0.1
    ],
)
def test_what_is_no_state_of_ours_is_refused(folder, text, message):
    file = folder / "step-00000008" / "state.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(folder, rf"step-00000008: expected .*{message}")


def test_another_training_is_not_resumed(folder):
    def other(name, kept, got, **arguments):
        message = rf"resume: expected {name}={kept}, as in .*step-00000008, got {got}; resume with"
        refused(folder, message, **arguments)

    other("seed", 0, 1, recipe=Recipe(**{**vars(RECIPE), "seed": 1}))
    other("average", 0.9, None, recipe=Recipe(**{**vars(RECIPE), "average": None}))
    other("dropout", 0.1, 0.2, model=small(dropout=0.2))
    other("dtype", "'torch.float32'", "'torch.float64'", model=small().double())
    other("data", "'[0-9a-f]{16}'", "'[0-9a-f]{16}'", corpus=small_corpus(30))


def test_the_number_of_processes_may_not_change(folder, monkeypatch):
    loaded = checkpoint.newest(folder)
    loaded.state["identity"]["processes"] = 2
    monkeypatch.setattr(checkpoint, "newest", lambda _: loaded)
    refused(folder, r"resume: expected processes=2, as in .*, got 1; resume with what it began")


def test_a_setting_that_the_checkpoint_does_not_know_is_named(folder, monkeypatch):
    loaded = checkpoint.newest(folder)
    del loaded.state["identity"]["clip"]
    monkeypatch.setattr(checkpoint, "newest", lambda _: loaded)
    refused(folder, r"resume: expected clip=None, as in .*, got 1.0; resume with what it began")


def test_a_folder_with_a_training_is_not_written_over(folder):
    with pytest.raises(ValueError, match=r"folder: expected one without a training in it, got .*/"):
        quiet(small(), folder=folder)
    assert len(checkpoint.checkpoints(folder)) == 2


# --- No room --------------------------------------------------------------------------------------


@pytest.fixture
def limit():
    """How large a file may become; the disk seems full beyond it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


NO_ROOM = (
    r"copy: checkpoint at step 10 could not be written \(.*\); the last whole one is step-0*8;"
)


@pytest.mark.parametrize("name", ["weights", "optimizer"])
def test_a_full_disk_leaves_the_last_good_checkpoint(folder, limit, name):
    size = (folder / "step-00000008" / f"{name}.safetensors").stat().st_size
    limit(size - 10)
    with pytest.raises(OSError, match=f"{NO_ROOM} make room there, or make it writable, then"):
        quiet(small(), folder=folder, resume=True, checkpoint_every=10)
    limit(10**9)
    still_good(folder)


@pytest.mark.parametrize("where", ["os.mkdir", "pathlib.Path.write_text", "os.fsync", "os.rename"])
def test_no_room_at_any_moment(folder, monkeypatch, where):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    quiet(small(), Recipe(steps=1), folder=folder.parent / "other")  # whatever is imported first
    monkeypatch.setattr(where, full)
    with pytest.raises(OSError, match=rf"{NO_ROOM} make room"):
        quiet(small(), folder=folder, resume=True, checkpoint_every=10)
    monkeypatch.undo()
    still_good(folder)


def still_good(folder):
    assert listed(folder) == ["step-00000004", "step-00000008"]
    model = small()
    quiet(model, folder=folder, resume=True)
    assert same_tensors(tensors_of(model), whole()[1])


def test_no_room_for_the_first_one(tmp_path, limit):
    limit(100)
    with pytest.raises(OSError, match=r"at step 1 could .*; there is none before it; make room"):
        quiet(small(), folder=tmp_path / "new", checkpoint_every=1)
    assert listed(tmp_path / "new") == []


def test_a_folder_that_cannot_be_made_is_refused_before_the_first_step(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        quiet(small(), folder=tmp_path / "file", watch=lambda *_: pytest.fail("began"))


def test_an_old_checkpoint_that_cannot_be_deleted_stops_nothing(folder, monkeypatch):
    real = Path.rename

    def rename(path, target):
        if path.name.startswith("step-"):
            raise PermissionError(path)
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    quiet(small(), folder=folder, resume=True)
    assert [path.name for path in checkpoint.checkpoints(folder)][-1] == "step-00000012"
