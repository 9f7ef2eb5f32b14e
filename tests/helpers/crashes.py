"""What a killed process leaves on the disk, and two models that cannot be mixed up."""

import os
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from helpers import same_tensors
from helpers.small_training import small
from unmasked.storage.lock import LOCK
from unmasked.storage.weights import tensors_of
from unmasked.tokens import Subwords
from unmasked.translator import Translator

EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.chmod"}
NAMES = ("old", "new")
watching: list[Callable[[str], None]] = []


@cache  # it cannot be taken away again
def listen() -> None:
    def hook(name: str, arguments: tuple) -> None:
        if name in EVENTS and watching:
            watch = watching.pop()  # what it does is no operation of what it watches
            watch(f"{name} {Path(str(arguments[0])).name}")
            watching.append(watch)

    sys.addaudithook(hook)


def killed(folder: Path, write: Callable[[], object], copies: Path) -> list[tuple[str, Path]]:
    """Each operation of a writing on the disk, and a copy of what a kill before it would leave.

    What is unfinished has lost its second half; the last copy is of what went through.
    """
    found: list[tuple[str, Path]] = []

    def copy(event: str) -> None:
        path = Path(shutil.copytree(folder, copies / str(len(found))))
        for file in path.glob(".*.unfinished"):
            os.truncate(file, file.stat().st_size // 2)
        found.append((event, path))

    listen()
    watching.append(copy)
    try:
        write()
    finally:
        watching.clear()
    copy("none")
    return found


def listed(folder: Path) -> list[str]:
    """But for the lock, which stays where it was made."""
    return sorted(path.name for path in folder.iterdir() if path.name != LOCK)


@cache
def made(name: str) -> Translator:
    """With words and weights of its own."""
    words = Subwords.of([f"the {name} dog sleeps", "der Hund"], 40)
    sizes = {"source_vocab": len(words), "target_vocab": len(words), "d_ff": 8 + NAMES.index(name)}
    return Translator(small(**sizes), words, words, {"name": name})


def held(path: Path) -> str:
    """Which of the two a file or folder holds, whole; an error if it is neither."""
    read = Translator.load(path)
    name: str = read.about["name"]
    assert same_tensors(tensors_of(read.model), tensors_of(made(name).model))
    assert read.source.to_json() == made(name).source.to_json()
    return name
