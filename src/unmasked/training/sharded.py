"""A training in which no process holds the whole model: each keeps a part of every matrix.

PyTorch's `fully_shard` lends each layer its missing parts when its turn comes, and takes them
back. This is the shortest loop that does it; what `train` does beside (checkpoints, averages,
packing) is left out.

    torchrun --nproc-per-node 2 -m unmasked.training.sharded --steps 20

trains a model of the phrasebook, and says how much of it each process kept.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from ..config import TransformerConfig
from ..errors import invalid
from ..text.sources import phrasebook_data
from ..text.streaming import AnyCorpus, StreamedCorpus
from ..transformer import Transformer
from .processes import Processes, processes
from .recipe import Recipe, optimizer_for, rate_at
from .trainer import LossOf

LEFT_OUT = ("both_ways", "accumulate", "average", "packed", "precision", "compile")


def shard(loss: LossOf, group: Processes) -> LossOf:
    """In place: each parameter becomes this process's part of it; what is tied stays tied."""
    mesh = init_device_mesh(group.device.type, (group.count,))
    for layer in (*loss.model.encoder.layers, *loss.model.decoder.layers):
        fully_shard(layer, mesh=mesh)  # lent and taken back layer by layer
    fully_shard(loss, mesh=mesh)  # the rest: embeddings, last norms, last matrix
    return loss


def train_sharded(
    model: Transformer, corpus: AnyCorpus, recipe: Recipe, group: Processes
) -> list[float]:
    """The losses of all steps. All processes begin with the same weights, and end with parts."""
    for name in LEFT_OUT:
        if getattr(recipe, name) != Recipe.__dataclass_fields__[name].default:
            fix = "train() has it; this loop leaves it out"
            raise invalid(name, "its default", repr(getattr(recipe, name)), fix)
    loss: Any = shard(LossOf(model.to(group.device), recipe), group)
    optimizer = optimizer_for(model, recipe)  # of the parts: Adam's means are parts too
    stream: Any = corpus.stream(recipe.tokens, recipe.seed)
    losses = []
    torch.manual_seed(recipe.seed * 1_009 + group.rank)  # each draws its own dropout
    model.train()
    for step in range(1, recipe.steps + 1):
        numbers, _ = next(stream)
        mine = numbers[group.rank :: group.count]
        batch = [x.to(group.device) for x in corpus.batch(mine or numbers[:1])]  # all take part
        value = loss(*batch, corpus.labels(numbers)) * bool(mine)
        (value * group.count).backward()  # the mean over the processes is taken
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip or torch.inf)
        for parameters in optimizer.param_groups:
            parameters["lr"] = rate_at(step, recipe, model.config.d_model)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(group.total(value.detach()).item())
    model.eval()
    return losses


def kept(model: Transformer, group: Processes) -> list[int]:
    """How many numbers of a sharded model each process keeps."""
    counts = torch.zeros(group.count, dtype=torch.long, device=group.device)
    parts: list[Any] = list(model.parameters())
    counts[group.rank] = sum(part.to_local().numel() for part in parts)
    return group.total(counts).tolist()


def main(words: Sequence[str] | None = None) -> None:
    made = argparse.ArgumentParser(description="A training in which each process keeps a part.")
    made.add_argument("--steps", type=int, default=20, help="updates (20)")
    made.add_argument("--count", type=int, default=2000, help="sentences to train with (2000)")
    made.add_argument("--device", help="such as cpu or cuda (the best there is)")
    options = made.parse_args(words)
    preset = resources.files("unmasked") / "recipes" / "phrasebook.toml"
    tables = tomllib.loads(preset.read_text(encoding="utf-8"))
    recipe = Recipe(**{**tables["training"], "steps": options.steps})
    data = phrasebook_data(options.count)
    sizes = {"source_vocab": len(data.source), "target_vocab": len(data.target)}
    torch.manual_seed(recipe.seed)
    model = Transformer(TransformerConfig(**{**sizes, **tables["model"]}))
    corpus = StreamedCorpus(lambda: data.training, data.source, data.target)
    whole = model.count_parameters()
    with processes(options.device) as group:
        if group.count == 1:
            made.error("start it with torchrun --nproc-per-node 2 -m unmasked.training.sharded")
        losses = train_sharded(model, corpus, recipe, group)
        parts = kept(model, group)
        if group.first:
            print(json.dumps({"parameters": whole, "kept": parts, "loss": losses}))


if __name__ == "__main__":
    main()
