"""Locks a training's folder, because a second training would overwrite the first one's files."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import invalid

NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP)  # errors of file systems without locks
LOCK = ".training.lock"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Holds the folder's lock until the block ends, or the process does, however it ends."""
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        expected, got = "a folder without another training", "one that writes there now"
        fix = "wait until it ends, stop it, or choose another folder"
        raise invalid(str(folder), expected, got, fix) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            fix = "make it writable, or choose another folder"
            raise OSError(f"{folder}: no training can be kept here ({error}); {fix}") from error
    try:
        yield
    finally:
        lock.release()
