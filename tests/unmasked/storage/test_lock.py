"""One training at a time in a folder: a second one is refused, and nothing of the first is lost."""

import errno

import pytest

from helpers import same_tensors
from helpers.small_training import quiet, small
from unmasked.storage import lock
from unmasked.storage.files import tensors_of
from unmasked.storage.lock import LOCK, held


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
