"""One training at a time in a folder: a second one is refused, and nothing of the first is lost."""

import errno
import os
import signal
import subprocess
import sys
from threading import Event, Thread

import pytest

from helpers import same_tensors
from helpers.small_training import quiet, small
from unmasked.storage import lock
from unmasked.storage.checkpoint import checkpoints
from unmasked.storage.files import tensors_of
from unmasked.storage.lock import HOLDER, held

HOLD = """
import sys, time
from pathlib import Path
from unmasked.storage.lock import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(100)
"""


@pytest.fixture
def other(tmp_path):
    """Another process that trains in the folder."""
    command = [sys.executable, "-c", HOLD, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_training_is_refused_and_told_who_is_there(tmp_path, other, resume):
    message = (
        rf"expected a folder without another training, got .* \(process {other.pid} on .*, since"
    )
    with pytest.raises(ValueError, match=message):
        quiet(small(), folder=tmp_path, resume=resume)
    assert checkpoints(tmp_path) == []
    assert other.poll() is None


def test_what_was_killed_holds_nothing(tmp_path, other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    quiet(small(), folder=tmp_path, checkpoint_every=4)
    assert len(checkpoints(tmp_path)) == 2
    assert not (tmp_path / HOLDER).exists()


def test_the_first_goes_on_while_the_second_is_refused(tmp_path):
    asked, answered, model, whole = Event(), Event(), small(), small()

    def watch(step, _):
        if step == 4:
            asked.set()
            answered.wait(60)

    often = {"folder": tmp_path, "checkpoint_every": 2, "every": 4}
    first = Thread(target=lambda: quiet(model, watch=watch, **often))
    first.start()
    try:
        assert asked.wait(60)
        with pytest.raises(ValueError, match=f"process {os.getpid()} on"):
            quiet(small(), folder=tmp_path, resume=True)
    finally:
        answered.set()
        first.join()
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


def test_what_happens_inside_is_not_hidden_by_tidying_up(tmp_path):
    def fails():
        (tmp_path / HOLDER).unlink()
        (tmp_path / HOLDER).mkdir()
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"), held(tmp_path):
        fails()
    with held(tmp_path):
        pass


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"no training can be kept here \(.*; make it writable, or"):
        quiet(small(), folder=tmp_path / "file")


@pytest.mark.usefixtures("other")
def test_who_holds_it_may_not_have_said_so_yet(tmp_path):
    (tmp_path / HOLDER).unlink()
    with pytest.raises(ValueError, match=r"got one that writes there now; wait"), held(tmp_path):
        pass


def test_two_commands_at_once_end_as_one_training_and_one_sentence(tmp_path):
    small_one = ["training.steps=6", "data.count=300", "model.n_layers=1"]
    words = [word for setting in small_one for word in ("--set", setting)]
    where = ["--preset", "phrasebook", "--out", str(tmp_path / "run"), "--quiet"]
    command = [sys.executable, "-m", "unmasked", "train", *where, *words]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)]  # fmt: skip
    said = [process.communicate(timeout=200)[1] for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) == [0, 1], said
    error = said[codes.index(1)]
    assert "without another training" in error or "without a training in it" in error
    assert error.count("\n") == 1
    assert (tmp_path / "run" / "config.json").exists()
