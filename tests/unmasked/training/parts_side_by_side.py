"""What two processes with half a model each do at once: a script, and a function for a test.

`parts_side_by_side.py CASE FOLDER` prints what was learnt as JSON, and writes the whole weights.
"""

import json
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from small_training import small, small_corpus
from torch.distributed.tensor import DTensor

from unmasked.storage.files import tensors_of, write_tensors
from unmasked.training.processes import processes
from unmasked.training.recipe import Recipe
from unmasked.training.sharded import kept, train_sharded

USUAL = {"steps": 6, "tokens": 60, "warmup": 3}
CASES = {
    "usual": ({}, Recipe(**USUAL)),
    "all tied": ({"tie_embeddings": True}, Recipe(**USUAL, clip=None)),
    "one sentence": ({}, Recipe(**{**USUAL, "tokens": 10}, optimizer="adam")),
}


class Learnt(NamedTuple):
    losses: list[float]
    kept: list[int]
    tied: bool


def halves(name: str, folder: Path | None = None) -> Learnt:
    """In float64, and without dropout."""
    config, recipe = CASES[name]
    model = small(dropout=0.0, **config).double()
    with processes("cpu") as group:
        losses = train_sharded(model, small_corpus(), recipe, group)
        parts = kept(model, group)
        whole = {key: part.full_tensor() for key, part in tensors_of(model).items()}
        if folder is not None:
            write_tensors(folder / "weights.safetensors", whole)
    table = model.target_embedding.tokens.weight
    tied = isinstance(table, DTensor) and model.generator.weight is table
    if config:
        tied = tied and model.source_embedding.tokens.weight is table
    return Learnt(losses, parts, tied)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(halves(sys.argv[1], Path(sys.argv[2]))._asdict()))
