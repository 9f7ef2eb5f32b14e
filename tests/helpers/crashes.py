"""Trainings and savings that die, or meet; they fork, and so must not have threads."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # which an optimiser imports: once here, and not in each child

from helpers import same_tensors
from helpers.small_training import RECIPE, quiet, small, stopping_at
from unmasked import Transformer, TransformerConfig
from unmasked.storage import checkpoint
from unmasked.storage.files import UNFINISHED, tensors_of, write_tensors
from unmasked.storage.model import CONFIG
from unmasked.tokens import Subwords
from unmasked.translator import Translator

EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
NAMES = ("old", "new")
SHORT = replace(RECIPE, steps=8)


def told(name: str, folder: Path) -> Any:
    """What a function of this module returns, in a process of its own."""
    paths = os.pathsep.join(sys.path)
    alone = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": paths}
    command = [sys.executable, "-m", "helpers.crashes", name, folder]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **alone})
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def child(work: Callable[[], object]) -> int:
    process = os.fork()
    if process == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return process


def ended(process: int) -> int:
    """Its exit status; -9 if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def at_each_operation(base: Path, begin: Callable, write: Callable, found: Callable) -> list:
    """A death before each one of a writing, and what is found then; the last goes through."""
    seen: list = []
    base.mkdir()
    while True:
        folder, event = base / str(len(seen)), base / "event"
        begin(folder)
        die = partial(die_before, len(seen), folder, event)
        status = ended(child(partial(write, folder, die)))
        seen.append([event.read_text() if status else "none", found(folder)])
        if status == 0:
            return seen
        assert status == -signal.SIGKILL


def die_before(number: int, folder: Path, event: Path) -> None:
    """Before that operation from now on; what is unfinished loses its second half."""
    operations = count()

    def hook(name: str, arguments: tuple) -> None:
        if name in EVENTS and next(operations) == number:
            left = [*folder.glob(f"{UNFINISHED}*"), *folder.glob(f"{UNFINISHED}*/*")]
            for path in filter(Path.is_file, left):
                os.truncate(path, path.stat().st_size // 2)
            event.write_text(f"{name} {Path(str(arguments[0])).name}")
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


# --- Trainings --------------------------------------------------------------------------------


def train_on(folder: Path) -> None:
    """From wherever the folder stands, to the end."""
    torch.set_num_threads(1)
    model = small()
    quiet(model, SHORT, folder=folder, checkpoint_every=2, resume=True, every=5)
    write_tensors(folder / "end.safetensors", tensors_of(model))


def end(folder: Path) -> bytes:
    assert ended(child(partial(train_on, folder))) == 0
    assert not list(folder.glob(f"{UNFINISHED}*"))
    return (folder / "end.safetensors").read_bytes()


def training_at_each_operation(base: Path) -> list:
    """Of the third checkpoint, which has the first deleted."""
    expected, prepared = end(base / "whole"), base / "prepared"
    with stopping_at(5):
        assert ended(child(partial(train_on, prepared))) == 1

    def write(folder: Path, die: Callable) -> None:
        save = checkpoint.save

        def dying(*arguments: Any) -> None:
            die()
            save(*arguments)
            os._exit(0)

        checkpoint.save = dying
        train_on(folder)

    copied = partial(shutil.copytree, prepared)
    return at_each_operation(base / "dying", copied, write, lambda path: end(path) == expected)


# --- Savings ----------------------------------------------------------------------------------


@cache
def made(name: str) -> Translator:
    """Two models with other words and other weights, so that their files cannot be mixed up."""
    words = Subwords.of([f"the {name} dog sleeps", "der Hund"], 40)
    torch.manual_seed(NAMES.index(name))
    sizes = {"source_vocab": len(words), "target_vocab": len(words), "d_model": 16, "d_ff": 16}
    model = Transformer(TransformerConfig(**sizes, n_heads=2, n_layers=1))
    return Translator(model, words, words, {"name": name})


def held(folder: Path) -> str:
    """Which of the two a folder holds, whole; an error if it is neither."""
    if not (folder / CONFIG).exists():
        return "nothing"
    read = Translator.load(folder)
    name: str = read.about["name"]
    assert same_tensors(tensors_of(read.model), tensors_of(made(name).model))
    assert read.source.to_json() == made(name).source.to_json()
    return name


def save_in_turn(folder: Path, times: float = float("inf"), pause: float = 0.0) -> None:
    done = 0
    while done < times:
        made(NAMES[done % 2]).save(folder)
        time.sleep(pause)
        done += 1


def saving_at_each_operation(base: Path) -> dict[str, list]:
    """Over a model that is there; and into an empty folder."""

    def write(folder: Path, die: Callable) -> None:
        die()
        made("new").save(folder)

    return {
        "old": at_each_operation(base / "over", made("old").save, write, held),
        "nothing": at_each_operation(base / "first", Path.mkdir, write, held),
    }


def two_savings(folder: Path) -> list[str]:
    """Both save two models in turn, with pauses in which this process reads."""
    made("old").save(folder)
    writers = [child(partial(save_in_turn, folder, 6, pause=0.02)) for _ in range(2)]
    read = [held(folder)]
    while None in [os.waitid(os.P_PID, w, os.WEXITED | os.WNOHANG | os.WNOWAIT) for w in writers]:
        read.append(held(folder))
    assert [ended(writer) for writer in writers] == [0, 0]
    return [*read, held(folder)]


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in NAMES:
        made(name)
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))
