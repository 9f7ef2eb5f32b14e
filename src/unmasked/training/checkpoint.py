"""Where a training stands, on disk: whole or not there, and never a pickle.

A checkpoint is a folder of safetensors files and one `state.json` with their sums. It is written
under another name and renamed when everything is on the disk, so that whatever happens, and
whenever, the last whole checkpoint is untouched.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from torch import Tensor

from ..validation import invalid
from ..weights import read_tensors, write_tensors

FORMAT = "unmasked checkpoint 1"
KEPT = 2  # the newest; the others are deleted


class Checkpoint(NamedTuple):
    path: Path
    state: dict[str, Any]  # what JSON can hold
    tensors: dict[str, dict[str, Tensor]]  # by file


def save(
    folder: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> Path:
    """Writes `folder/step-00001200`, then deletes what is older than the newest two."""
    final = folder / f"step-{step:08}"
    unfinished = folder / f".unfinished-{final.name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        clear(unfinished)
        unfinished.mkdir()
        for name, values in tensors.items():
            write_tensors(unfinished / f"{name}.safetensors", values)
        sums = {path.name: digest(path) for path in sorted(unfinished.iterdir())}
        text = json.dumps({"format": FORMAT, "sums": sums, "state": dict(state)}, indent=1)
        (unfinished / "state.json").write_text(text + "\n", encoding="utf-8")
        for path in unfinished.iterdir():
            flush(path)
        clear(final)
        unfinished.rename(final)
        flush(folder)
    except (OSError, SafetensorError) as error:
        clear(unfinished)
        whole = [path.name for path in checkpoints(folder)[-1:]]
        kept = f"the last whole one is {whole[0]}" if whole else "there is none before it"
        message = f"{folder}: checkpoint at step {step} could not be written ({error}); {kept}"
        raise OSError(f"{message}; free some space, then resume") from error
    for old in checkpoints(folder)[:-KEPT]:
        clear(old)
    return final


def load(folder: Path) -> Checkpoint | None:
    """The newest checkpoint of a folder; none if there is none; an error if it is damaged."""
    found = checkpoints(folder)
    return read(found[-1]) if found else None


def read(path: Path) -> Checkpoint:
    try:
        kept = json.loads((path / "state.json").read_text(encoding="utf-8"))
        if kept["format"] != FORMAT:
            fix = "it is of another version: begin again, or use that version"
            raise invalid(str(path), repr(FORMAT), repr(kept["format"]), fix)
        for name, expected in kept["sums"].items():
            if digest(path / name) != expected:
                raise damaged(path, f"{name} with another sum")
        state, names = dict(kept["state"]), list(kept["sums"])
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from None
    return Checkpoint(path, state, {Path(n).stem: read_tensors(path / n) for n in names})


def damaged(path: Path, what: str) -> ValueError:
    fix = "delete this folder: the training resumes from the one before it, or begins again"
    return invalid(str(path), "a whole checkpoint", what, fix)


def checkpoints(folder: Path) -> list[Path]:
    """Those that were finished, oldest first."""
    return sorted(folder.glob("step-*"), key=lambda path: path.name)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush(path: Path) -> None:
    """Waits until it is on the disk, a folder's names too where the system can do that."""
    if path.is_dir() and os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def clear(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
