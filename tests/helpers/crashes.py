"""Shows what a killed process leaves on the disk; makes two models that cannot be mixed up."""

import os
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from helpers import same_tensors
from helpers.small_training import small
from unmasked.storage.files import LOCK
from unmasked.storage.weights import tensors_of
from unmasked.tokens import Subwords
from unmasked.translator import Translator

EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.chmod"}
NAMES = ("old", "new")


def killed(folder: Path, write: Callable[[], object], copies: Path) -> list[Path]:
    """Returns copies of what a kill before each disk operation of `write` would leave, and of all.

    An unfinished file loses its second half.
    """
    found: list[Path] = []
    watching = [True]

    def copy() -> None:
        found.append(Path(shutil.copytree(folder, copies / str(len(found)))))
        for file in found[-1].glob(".*.unfinished"):
            os.truncate(file, file.stat().st_size // 2)

    def hook(name: str, _: tuple) -> None:
        if name in EVENTS and watching:
            watching.clear()  # its own operations are not watched
            copy()
            watching.append(True)

    sys.addaudithook(hook)  # it cannot be removed, but ends watching
    try:
        write()
    finally:
        watching.clear()
    copy()
    return found


def listed(folder: Path) -> list[str]:
    """Lists a folder's files, except the lock, which is never removed."""
    return sorted(path.name for path in folder.iterdir() if path.name != LOCK)


@cache
def made(name: str) -> Translator:
    """Makes a translator whose words and weights depend on its name."""
    words = Subwords.of([f"the {name} dog sleeps", "der Hund"], 40)
    sizes = {"source_vocab": len(words), "target_vocab": len(words), "d_ff": 8 + NAMES.index(name)}
    return Translator(small(**sizes), words, words, {"name": name})


def held(path: Path) -> str:
    """Returns the name of the translator in a file or folder, after comparing all of it."""
    read = Translator.load(path)
    expected = made(read.about["name"])
    assert same_tensors(tensors_of(read.model), tensors_of(expected.model))
    assert read.source.to_json() == expected.source.to_json()
    return read.about["name"]
