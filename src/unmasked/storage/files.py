"""One file, whole or not there: tensors as safetensors, and in its head what is said about them.

It is written under a name beside its own, to the disk, and then takes its own name at once. So a
kill loses nothing, and leaves at most that one file, which the next writing begins anew.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

HEAD = "unmasked"  # the entry of a file's metadata that is ours
WHOLE = 1 << 26  # bytes at most of what is no tensor


def write(path: Path, tensors: Mapping[str, Tensor], said: Mapping[str, Any]) -> None:
    """Writes tensors and what JSON can say; a failure leaves what was there, and says so."""
    text = json.dumps(said, ensure_ascii=False, default=as_json)
    text = text.encode(errors="replace").decode()  # a path need not be Unicode
    rows = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone(path.parent), unfinished(path) as beside:
            # Not `save_file`, which writes under names of its own, and for its owner alone.
            beside.write_bytes(save(rows, metadata={HEAD: text}))
    except (OSError, SafetensorError) as error:
        kept = "what was there is whole; " if path.exists() else ""
        fix = f"{kept}choose a place with room that you may write in"
        raise OSError(f"{path}: could not be written ({error}); {fix}") from error


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """Gives the name to write under; what is whole then replaces `path`."""
    beside = path.with_name(f".{path.name}.unfinished")
    try:
        yield beside
        flush(beside)
        beside.replace(path)
        flush(path.parent)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lets one writer at a time into a folder, where the system can do that."""
    handle = None
    try:
        with suppress(ImportError, OSError):  # Windows; some disks far away
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def flush(path: Path) -> None:
    """Waits until it is on the disk; a folder's names too, where the system can do that."""
    folder = path.is_dir()
    try:
        handle = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError:
        if not folder:
            raise


def as_json(value: Any) -> Any:
    """Turns NumPy's numbers into Python's, and whatever else into its text."""
    return value.item() if hasattr(value, "item") else str(value)


# --- Reading ----------------------------------------------------------------------------------


def read(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Reads what `write` wrote."""
    with opened(path) as file:
        return tensors_in(file), said_in(file)


def tensors_in(file: Any) -> dict[str, Tensor]:
    """Copies an open file's tensors into memory of their own: the file may change afterwards."""
    return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118


def said_in(file: Any) -> Any:
    try:
        return json.loads((file.metadata() or {}).get(HEAD, "null"))
    except RecursionError as error:
        raise ValueError(str(error)) from None


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Opens one file: safetensors does so twice, and another may be renamed to it in between."""
    try:
        before = None
        while before != (before := version(path)):
            file = safe_open(path, framework="pt")
        with file:
            yield file
    except SafetensorError as error:
        raise ValueError(f"a {path.name} that is no safetensors file ({error})") from None


def version(path: Path) -> tuple[int, int]:
    stat = regular(path).stat()
    return stat.st_ino, stat.st_mtime_ns


def text_of(path: Path) -> str:
    return bytes_of(path).decode()


def bytes_of(path: Path) -> bytes:
    if regular(path).stat().st_size > WHOLE:
        raise ValueError(f"a {path.name} of {path.stat().st_size:,} bytes")
    return path.read_bytes()


def regular(path: Path) -> Path:
    """Refuses a device or a pipe, which could be read for ever."""
    if path.exists() and not path.is_file():
        raise ValueError(f"a {path.name} that is no file")
    return path
