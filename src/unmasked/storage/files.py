"""Writes tensors and JSON into one safetensors file, which is complete or does not exist.

The content is written under a name beside the file's own, flushed, and renamed. A kill leaves at
most that second file, which the next writing begins anew.
"""

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..errors import invalid

HEAD = "unmasked"  # our entry in a file's metadata
WHOLE = 1 << 26  # the most bytes that are read of a file without tensors
LOCK = ".training.lock"
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP)  # errors of file systems without locks


def write(path: Path, tensors: Mapping[str, Tensor], said: Mapping[str, Any]) -> None:
    """Writes tensors, and `said` as JSON in the header; if that fails, an old file stays whole."""
    text = json.dumps(said, ensure_ascii=False, default=as_json)
    text = text.encode(errors="replace").decode()  # a path need not be Unicode
    rows = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    beside = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone(path.parent):
            try:
                # `save_file` would write under names of its own, and for its owner alone.
                beside.write_bytes(save(rows, metadata={HEAD: text}))
                flush(beside)
                beside.replace(path)
                flush(path.parent)
            finally:
                beside.unlink(missing_ok=True)
    except (OSError, SafetensorError) as error:
        kept = "what was there is whole; " if path.exists() else ""
        fix = f"{kept}choose a place with room that you may write in"
        raise OSError(f"{path}: could not be written ({error}); {fix}") from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Locks a folder during the block against other writers, where the system can do that."""
    with ExitStack() as after:
        with suppress(ImportError, OSError):  # Windows; some network drives
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            after.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Locks a training's folder until block or process ends; raises ValueError if it is locked."""
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


def flush(path: Path) -> None:
    """Waits until a file's content, or a folder's list of names if possible, is on the disk."""
    folder = path.is_dir()
    with suppress(OSError) if folder else nullcontext():
        handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def as_json(value: Any) -> Any:
    """Returns NumPy's number as Python's, and any other object that JSON lacks as its text."""
    return value.item() if hasattr(value, "item") else str(value)


# --- Reading ----------------------------------------------------------------------------------


def read(path: Path) -> tuple[dict[str, Tensor], Any]:
    with opened(path) as file:
        return tensors_in(file), said_in(file)


def tensors_in(file: Any) -> dict[str, Tensor]:
    """Returns copies of an open safetensors file's tensors, as the file may change afterwards."""
    return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118


def said_in(file: Any) -> Any:
    """Returns the JSON in an open file's header; None if `write` did not write the file."""
    return json.loads((file.metadata() or {}).get(HEAD, "null"))


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Yields a safetensors file, opened; opens again if the file was replaced in the meantime."""
    try:
        file = None
        while file is None:
            stat_of(path)
            with path.open("rb") as same:  # while it is open, no other file gets its inode
                file = safe_open(path, framework="pt")
                if not os.path.samestat(os.fstat(same.fileno()), path.stat()):
                    file = None
        with file:
            yield file
    except SafetensorError as error:
        raise ValueError(f"a {path.name} that is no safetensors file ({error})") from None


def bytes_of(path: Path) -> bytes:
    if (size := stat_of(path).st_size) > WHOLE:
        raise ValueError(f"a {path.name} of {size:,} bytes")
    return path.read_bytes()


def stat_of(path: Path) -> os.stat_result:
    """Returns a file's stat; raises ValueError for a device or a pipe, which may never end."""
    if path.exists() and not path.is_file():
        raise ValueError(f"a {path.name} that is no file")
    return path.stat()
