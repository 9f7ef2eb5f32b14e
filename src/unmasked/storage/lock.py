"""One training at a time in a folder: a second one would write over what the first is writing."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import invalid

NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP)  # of some file systems
LOCK = ".training.lock"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Holds the folder until the block ends, or the process does, in whatever way."""
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
