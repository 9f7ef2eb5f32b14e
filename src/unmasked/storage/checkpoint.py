"""Where a training stands, on disk: whole or not there, and never a pickle.

A checkpoint is a folder of safetensors files and one `state.json` with their sums and its own. It
is written under another name and renamed when everything is on the disk, and given another name
before it is deleted, so that whatever happens, and whenever, the last whole checkpoint is there.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from torch import Tensor

from ..errors import invalid
from .files import UNFINISHED, digest, flush, read_tensors, write_tensors

FORMAT = "unmasked checkpoint 2"
STATE = "state.json"
KEPT = 2  # the newest; the others are deleted
NAME = re.compile("step-([0-9]{8,})")


class Checkpoint(NamedTuple):
    path: Path
    state: dict[str, Any]  # what JSON can hold
    tensors: dict[str, dict[str, Tensor]]  # by file


def save(
    folder: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> Path:
    """Writes `folder/step-00001200`, then deletes what is older than the newest two."""
    final = folder / f"step-{step:08}"
    unfinished = folder / f"{UNFINISHED}{final.name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished.mkdir()
        for name, values in tensors.items():
            write_tensors(unfinished / f"{name}.safetensors", values)
        sums = {path.name: digest(path) for path in sorted(unfinished.iterdir())}
        kept = {"format": FORMAT, "sums": sums, "state": dict(state)}
        text = json.dumps({**kept, "sum": seal(kept)}, indent=1, default=float)
        (unfinished / STATE).write_text(text + "\n", encoding="utf-8")
        for path in (*unfinished.iterdir(), unfinished):
            flush(path)
        unfinished.rename(final)
        flush(folder)
    except (OSError, SafetensorError) as error:
        whole = [path.name for path in checkpoints(folder)[-1:]]
        last = f"the last whole one is {whole[0]}" if whole else "there is none before it"
        message = f"{folder}: checkpoint at step {step} could not be written ({error}); {last}"
        raise OSError(f"{message}; make room there, or make it writable, then resume") from error
    finally:
        tidy(folder)
    return final


def tidy(folder: Path) -> None:
    """Deletes all but the newest checkpoints, and what was left by a run that was killed."""
    for old in checkpoints(folder)[:-KEPT]:
        with suppress(OSError):  # it takes room and does no harm
            old.rename(folder / f"{UNFINISHED}{old.name}")
    for left in folder.glob(f"{UNFINISHED}step-*"):
        shutil.rmtree(left, ignore_errors=True)


def newest(folder: Path) -> Checkpoint | None:
    """The newest checkpoint of a folder; none if there is none; an error if it is damaged."""
    whole = checkpoints(folder)
    return read(whole[-1]) if whole else None


def read(path: Path) -> Checkpoint:
    try:
        kept = json.loads((path / STATE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError) as error:
        raise damaged(path, f"{STATE}: {error}") from None
    form = kept.get("format") if isinstance(kept, dict) else kept
    if form != FORMAT:
        fix = "it is of another version or program, or damaged: choose another folder"
        raise invalid(str(path), repr(FORMAT), repr(form), fix)
    if kept.pop("sum", None) != seal(kept):
        raise damaged(path, f"{STATE} with another sum")
    for name, expected in kept["sums"].items():
        if not (path / name).is_file():
            raise damaged(path, f"no {name}")
        if digest(path / name) != expected:
            raise damaged(path, f"{name} with another sum")
    tensors = {Path(name).stem: read_tensors(path / name) for name in kept["sums"]}
    return Checkpoint(path, kept["state"], tensors)


def damaged(path: Path, what: str) -> ValueError:
    fix = "delete this folder: the training resumes from the one before it, or begins again"
    return invalid(str(path), "a whole checkpoint", what, fix)


def checkpoints(folder: Path) -> list[Path]:
    """Those that were finished, oldest first; what has another name is not ours."""
    finished = [
        path for path in folder.glob("step-*") if NAME.fullmatch(path.name) and path.is_dir()
    ]
    return sorted(finished, key=lambda path: int(path.name.removeprefix("step-")))


def seal(kept: Mapping[str, Any]) -> str:
    """The sum of what `state.json` says; the same when it was read again."""
    return hashlib.sha256(json.dumps(kept, default=float).encode()).hexdigest()
