"""Trainings that die, in a process of their own: it forks, and so must not have threads.

`python crashes.py kills FOLDER SEED` kills them at random moments; `python crashes.py points
FOLDER` at each operation on the disk of which a checkpoint consists.
"""

import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo  # which an optimiser imports: once here, and not in each child

from helpers.small_training import quiet, small
from unmasked.storage import checkpoint
from unmasked.storage.files import tensors_of, write_tensors

KILLS = 25
EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}


def child(work: Callable[[], None]) -> int:
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


def finish(folder: Path) -> None:
    """Trains on from wherever the folder stands, to the end."""
    torch.set_num_threads(1)
    model = small()
    quiet(model, folder=folder, checkpoint_every=2, resume=True, every=5)
    write_tensors(folder / "end.safetensors", tensors_of(model))


def end(folder: Path) -> bytes:
    assert ended(child(lambda: finish(folder))) == 0
    left = list(folder.glob(f"{checkpoint.UNFINISHED}*"))
    assert not left, f"left behind: {left}"
    return (folder / "end.safetensors").read_bytes()


def kills(base: Path, seed: int) -> None:
    draw = random.Random(seed)
    began = time.perf_counter()
    expected = end(base / "whole")
    whole = time.perf_counter() - began
    fell: Counter[str] = Counter()
    while sum(fell.values()) < KILLS:
        folder = base / str(sum(fell.values()))
        for _ in range(7):
            process = child(lambda folder=folder: finish(folder))
            time.sleep(draw.uniform(0.0, whole))
            os.kill(process, signal.SIGKILL)
            if ended(process) == 0:
                break
            unfinished = any(folder.glob(f"{checkpoint.UNFINISHED}*"))
            fell["writing or deleting" if unfinished else "elsewhere"] += 1
        assert end(folder) == expected, f"other weights in {folder}, seed {seed}"
    print(f"killed {sum(fell.values())} times: {dict(fell)}; seed {seed}, {whole:.2f} s a run")


def points(base: Path) -> None:
    expected = end(base / "whole")
    prepared = base / "prepared"
    assert ended(child(lambda: stop_before_save(prepared, 3))) == 3
    seen: list[str] = []
    while True:
        folder = base / str(len(seen))
        shutil.copytree(prepared, folder)
        status = ended(child(lambda folder=folder: crash_in_save(folder, len(seen))))
        if status == 0:
            break
        assert status == -signal.SIGKILL
        seen.append((folder / "event").read_text())
        assert end(folder) == expected, f"other weights after a crash at {seen[-1]}"
    print(f"crashed before each of {len(seen)} operations: {', '.join(seen)}")


def stop_before_save(folder: Path, number: int) -> None:
    real, saved = checkpoint.save, []

    def save(*arguments: object) -> Path:
        saved.append(0)
        if len(saved) == number:
            os._exit(number)
        return real(*arguments)

    checkpoint.save = save
    finish(folder)


def crash_in_save(folder: Path, number: int) -> None:
    """Dies before that operation of the next save; what is unfinished loses its second half."""
    real, counted = checkpoint.save, [-1]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event not in EVENTS or counted[0] < 0:
            return
        counted[0] += 1
        if counted[0] == number + 1:
            counted[0] = -1
            for path in folder.glob(f"{checkpoint.UNFINISHED}*/*"):
                os.truncate(path, path.stat().st_size // 2)
            (folder / "event").write_text(f"{event} {Path(str(arguments[0])).name}")
            os.kill(os.getpid(), signal.SIGKILL)

    def save(*arguments: object) -> None:
        counted[0] = 0
        real(*arguments)
        os._exit(0)

    checkpoint.save = save
    sys.addaudithook(hook)
    finish(folder)


if __name__ == "__main__":
    mode, base = sys.argv[1], Path(sys.argv[2])
    kills(base, int(sys.argv[3])) if mode == "kills" else points(base)
