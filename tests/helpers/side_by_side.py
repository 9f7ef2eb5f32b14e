"""Forks processes from one that has imported everything, and gives them work to do at once."""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

from safetensors.torch import save_file
from torch.multiprocessing import ProcessContext, start_processes

from helpers import free_port
from helpers.crashes import NAMES, made
from helpers.small_training import quiet, small, stopping_at
from unmasked import Transformer, cli
from unmasked.storage.weights import tensors_of
from unmasked.training.history import History
from unmasked.training.processes import processes
from unmasked.training.recipe import Recipe

USUAL = {"steps": 6, "tokens": 60, "warmup": 3}
RECIPES = {
    "usual": Recipe(**USUAL),
    "in parts": Recipe(**USUAL, accumulate=3, clip=None, packed=True, average=0.8),
    "one sentence": Recipe(**{**USUAL, "tokens": 10}, accumulate=2, optimizer="adam"),
}


@cache
def prepare() -> None:
    """Starts the process that the others are forked from, which may have no threads."""
    alone = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    forkserver.set_forkserver_preload([__name__, "torch._dynamo"])  # which an optimiser imports
    with mock.patch.dict(os.environ, alone, PYTHONPATH=os.pathsep.join(sys.path)):
        forkserver.ensure_running()


def together(
    count: int, work: Callable, *arguments: object, join: bool = True
) -> ProcessContext | None:
    """Runs the same work in several processes, as torchrun would; all end if one fails."""
    prepare()
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    given = (shared, work, *arguments)
    return start_processes(within, given, count, join, start_method="forkserver")


def within(rank: int, shared: dict[str, str], work: Callable, *arguments: object) -> None:
    os.environ.update(shared, RANK=str(rank), LOCAL_RANK=str(rank))
    work(*arguments)


# --- What they do -----------------------------------------------------------------------------


def trained(name: str, folder: Path | None = None) -> tuple[Transformer, History]:
    """Trains in float64 and without dropout, which differs from process to process."""
    model = small(dropout=0.0).double()
    return model, quiet(model, RECIPES[name], folder=folder)


def trainings(folder: Path) -> None:
    """Trains by each of `RECIPES`, and writes the weights and the history."""
    with processes("cpu") as group:
        for name in RECIPES:
            model, history = trained(name, folder / str(group.rank) / name)
            if group.first:
                save_file(tensors_of(model), folder / f"{name}.safetensors")
                (folder / f"{name}.json").write_text(json.dumps(history.rows))


def resume(folder: Path) -> None:
    """Writes the weights of a training that went through, and of one that was resumed."""
    options = {"recipe": Recipe(**{**USUAL, "steps": 12}), "every": 5}
    with processes("cpu") as group:
        model, again = small(), small()
        expected = quiet(model, **options)
        options |= {"folder": folder / "checkpoints", "checkpoint_every": 3}
        with suppress(KeyboardInterrupt), stopping_at(7):
            quiet(small(), **options)
        history = quiet(again, **options, resume=True)
        assert all(history[column] == expected[column] for column in ("loss", "norm"))
        for name, each in (("through", model), ("resumed", again)):
            save_file(tensors_of(each), folder / f"{name}{group.rank}.safetensors")


def command(words: list[str], said: Path) -> None:
    """Runs a command of the package, and writes what it prints to a file of the folder `said`."""
    sys.argv = ["__main__.py", *words]
    with (said / os.environ["RANK"]).open("w") as file, redirect_stdout(file):
        cli.main()


def save_in_turn(file: Path) -> None:
    for turn in range(6):
        made(NAMES[turn % 2]).save(file)
        time.sleep(0.02)
