"""One training at a time in a folder: a second one would delete what the first is writing."""

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import invalid

NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP)  # of some file systems
LOCK, HOLDER = ".training.lock", ".training"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Held until the block ends, or the process does, in whatever way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        got = f"one that writes there now{who_holds(folder)}"
        fix = "wait until it ends, stop it, or choose another folder"
        raise invalid(str(folder), "a folder without another training", got, fix) from None
    except OSError as error:
        if error.errno in NO_LOCKS:
            yield
            return
        fix = "make it writable, or choose another folder"
        raise OSError(f"{folder}: no training can be kept here ({error}); {fix}") from error
    try:
        now = datetime.now().strftime("%Y-%m-%d %H:%M")
        with suppress(OSError):  # a full disk says so when a checkpoint is written
            text = f"process {os.getpid()} on {platform.node()}, since {now}"
            (folder / HOLDER).write_text(text, encoding="utf-8")
        yield
    finally:
        try:
            with suppress(OSError):
                (folder / HOLDER).unlink(missing_ok=True)
        finally:
            lock.release()


def who_holds(folder: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return f" ({(folder / HOLDER).read_text(encoding='utf-8')})"
    return ""
