"""What several processes do at once: `torchrun … -m helpers.side_by_side FUNCTION FOLDER`."""

import json
import sys
from contextlib import suppress
from pathlib import Path

import torch

from helpers.small_training import quiet, small, stopping_at
from unmasked import Transformer
from unmasked.storage.files import tensors_of, write_tensors
from unmasked.training.history import History
from unmasked.training.processes import processes
from unmasked.training.recipe import Recipe

USUAL = {"steps": 6, "tokens": 60, "warmup": 3}
RECIPES = {
    "usual": Recipe(**USUAL),
    "in parts": Recipe(**USUAL, accumulate=3, clip=None, packed=True, average=0.8),
    "one sentence": Recipe(**{**USUAL, "tokens": 10}, accumulate=2, optimizer="adam"),
}


def trained(name: str, folder: Path | None = None) -> tuple[Transformer, History]:
    """In float64, and without dropout, which differs from process to process."""
    model = small(dropout=0.0).double()
    return model, quiet(model, RECIPES[name], folder=folder)


def trainings(folder: Path) -> None:
    """Writes what each of `RECIPES` gives."""
    with processes("cpu") as group:
        for name in RECIPES:
            model, history = trained(name, folder / name)
            if group.first:
                write_tensors(folder / f"{name}.safetensors", tensors_of(model))
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
        assert history["loss"] == expected["loss"]
        assert history["norm"] == expected["norm"]
        write_tensors(folder / f"through{group.rank}.safetensors", tensors_of(model))
        write_tensors(folder / f"resumed{group.rank}.safetensors", tensors_of(again))


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"trainings": trainings, "resume": resume}[sys.argv[1]](Path(sys.argv[2]))
