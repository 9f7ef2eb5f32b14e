"""Savings that die or meet, in processes of their own: they fork, and so must not have threads.

`saving.py kills FOLDER` kills a process that saves over one folder again and again; `saving.py
points FOLDER` kills a saving before each of its operations on the disk; `saving.py two FOLDER` has
two processes save into one folder while a third reads. Each prints what happened as JSON.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

from unmasked import Transformer, TransformerConfig
from unmasked.storage.files import UNFINISHED, tensors_of
from unmasked.storage.model import CONFIG
from unmasked.tokens import Subwords
from unmasked.translator import Translator

KILLS = 15
ROUNDS = 20
NAMES = ("old", "new")
EVENTS = {"open", "os.mkdir", "os.rename", "os.remove"}


@cache
def made(name: str) -> Translator:
    """Two models with other words and other weights, so that their files cannot be mixed up."""
    words = Subwords.of([f"the {name} dog sleeps", "der Hund"], 40)
    torch.manual_seed(NAMES.index(name))
    sizes = {"source_vocab": len(words), "target_vocab": len(words), "d_model": 16, "d_ff": 16}
    model = Transformer(TransformerConfig(**sizes, n_heads=2, n_layers=1))
    return Translator(model, words, words, {"name": name})


def found(folder: Path) -> str:
    """Which of the two a folder holds, whole; an error if it is neither."""
    read = Translator.load(folder)
    name: str = read.about["name"]
    kept, own = tensors_of(read.model), tensors_of(made(name).model)
    assert kept.keys() == own.keys()
    assert all(torch.equal(kept[key], own[key]) for key in own)
    assert read.source.to_json() == made(name).source.to_json()
    return name


def child(work: Callable[[], None]) -> int:
    process = os.fork()
    if process == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return process


def ended(process: int) -> int:
    """Its exit status; -9 if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def strangers(folder: Path) -> int:
    """How many files are left there that the configuration does not name."""
    named = json.loads((folder / CONFIG).read_text())["sums"]
    return sum(path.name not in named and path.name != CONFIG for path in folder.iterdir())


# --- Killed at random moments -----------------------------------------------------------------


def saves(folder: Path, times: int | None = None, pause: float = 0.0) -> None:
    """One model after the other, until somebody ends it."""
    done = 0
    while times is None or done < times:
        made(NAMES[done % 2]).save(folder)
        time.sleep(pause)
        done += 1


def kills(folder: Path) -> dict[str, object]:
    draw, loaded, cut_off = random.Random(), [], 0
    made("old").save(folder)
    began = time.perf_counter()
    saves(folder, 4)
    one = (time.perf_counter() - began) / 4
    for _ in range(KILLS):
        before = strangers(folder)
        process = child(lambda: saves(folder))
        time.sleep(draw.uniform(0.5, 6) * one)
        os.kill(process, signal.SIGKILL)
        assert ended(process) == -signal.SIGKILL
        loaded.append(found(folder))
        cut_off += strangers(folder) > before
    return {"loaded": loaded, "cut off": cut_off}


# --- Killed before each operation -------------------------------------------------------------


def points(folder: Path) -> dict[str, object]:
    """Over a model that is there; and into an empty folder, which holds nothing or the new one."""
    return {"over": each_point(folder / "over", True), "first": each_point(folder / "first", False)}


def each_point(base: Path, over: bool) -> list[list[str]]:
    seen: list[list[str]] = []
    log = base / "event"
    while True:
        folder = base / str(len(seen))
        folder.mkdir(parents=True)
        if over:
            made("old").save(folder)
        status = ended(child(lambda folder=folder: crash_in_save(folder, log, len(seen))))
        holds = found(folder) if (folder / CONFIG).exists() else "nothing"
        if status == 0:
            assert holds == "new"
            assert strangers(folder) == 0
            return seen
        assert status == -signal.SIGKILL
        seen.append([log.read_text(), holds])
        shutil.rmtree(folder)


def crash_in_save(folder: Path, log: Path, number: int) -> None:
    """Dies before that operation; what has not got its name yet loses its second half."""
    count = 0
    model = made("new")
    report = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event not in EVENTS or not str(arguments[0]).startswith(str(folder)):
            return
        if count == number:
            os.write(report, f"{event} {Path(str(arguments[0])).name}".encode())
            for path in folder.glob(f"{UNFINISHED}*"):
                os.truncate(path, path.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1

    sys.addaudithook(hook)
    model.save(folder)


# --- Two at once ------------------------------------------------------------------------------


def two(folder: Path) -> dict[str, object]:
    """Both save the same two models in turn: what one replaces, the other writes again.

    They pause, so that on a busy machine, too, there is time to read in between.
    """
    made("old").save(folder)
    writers = [child(lambda: saves(folder, ROUNDS, pause=0.02)) for _ in range(2)]
    going, read = set(writers), []
    while going:
        read.append(found(folder))
        for process in list(going):
            gone, status = os.waitpid(process, os.WNOHANG)
            if gone:
                assert os.waitstatus_to_exitcode(status) == 0
                going.remove(process)
    return {"read": read, "end": found(folder), "left": strangers(folder)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in NAMES:
        made(name)
    mode, base = sys.argv[1], Path(sys.argv[2])
    print(json.dumps({"kills": kills, "points": points, "two": two}[mode](base)))
