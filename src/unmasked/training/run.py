"""The state of one training: everything that changes from step to step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ..data.corpus import Corpus, Place
from ..transformer import Transformer
from ..validation import invalid
from ..weights import set_tensors, tensors_of
from . import checkpoint
from .history import History, Row
from .processes import Processes
from .recipe import Recipe, rate_at
from .update import Updater


class Run:
    def __init__(
        self, model: Transformer, corpus: Corpus, recipe: Recipe, group: Processes
    ) -> None:
        self.model, self.corpus, self.recipe, self.group = model, corpus, recipe, group
        self.step, self.place, self.history = 0, Place(), History()
        self.recent: list[dict[str, Tensor]] = []  # what the updates since the last note measured
        self.began, self.before = time.perf_counter(), 0.0
        self.average: AveragedModel | None = None
        if recipe.average is not None:
            average = get_ema_multi_avg_fn(recipe.average)  # type: ignore[no-untyped-call]
            self.average = AveragedModel(model, multi_avg_fn=average)
        self.stream = corpus.stream(recipe.tokens, recipe.seed)
        self.update = Updater(model, corpus, recipe, group)

    def advance(self) -> None:
        """One step."""
        numbers, place = next(self.stream)
        self.model.train()
        self.recent.append(self.update(self.step + 1, numbers))
        if self.average is not None:
            self.average.update_parameters(self.model)
        self.step, self.place = self.step + 1, place

    def note(self, watch: Callable[..., Mapping[str, float] | None] | None, writer: Any) -> Row:
        """A row of the history: the mean of what was measured since the last one."""
        row: Row = {}
        if self.recent:
            loss = self.group.total(torch.stack([taken["loss"] for taken in self.recent]).mean())
            norm = torch.stack([taken["norm"] for taken in self.recent]).mean()
            row = {"loss": loss.item(), "norm": norm.item()}
            row["rate"] = rate_at(self.step, self.recipe, self.model.config.d_model)
            row["seconds"] = self.before + time.perf_counter() - self.began
            self.recent = []
            if not math.isfinite(row["loss"]):
                advice = "lower the rate, warm up for longer, or clip the gradient"
                message = f"the loss is {row['loss']} at step {self.step}: {advice}"
                raise FloatingPointError(message)
        if watch is not None and self.group.first:
            self.model.eval()
            row |= watch(self.step, self.model) or {}
        if row:
            self.history.add(self.step, row)
        if writer:
            for name, value in row.items():
                writer.add_scalar(name, value, self.step)
        return row

    def finish(self) -> None:
        if self.average is not None:
            set_tensors(self.model, tensors_of(self.average.module))
        self.model.eval()

    # --- On disk ----------------------------------------------------------------------------

    def identity(self) -> dict[str, Any]:
        """What must be the same for a run to go on."""
        model, recipe = asdict(self.model.config), asdict(self.recipe)
        return {"data": self.corpus.fingerprint(), "processes": self.group.count, **model, **recipe}

    def save(self, folder: Path) -> None:
        """A checkpoint, written by the first process."""
        if not self.group.first:
            return
        tensors = {"weights": tensors_of(self.model), "optimizer": {}}
        for number, state in self.update.optimizer.state_dict()["state"].items():
            tensors["optimizer"] |= {f"{number}.{name}": x for name, x in state.items()}
        if self.average is not None:
            tensors["average"] = tensors_of(self.average.module)
        seconds = self.before + time.perf_counter() - self.began
        recent = [{name: x.item() for name, x in taken.items()} for taken in self.recent]
        state = {"step": self.step, "place": self.place, "seconds": seconds, "recent": recent,
                 "history": self.history.rows, "identity": self.identity()}  # fmt: skip
        checkpoint.save(folder, self.step, tensors, state)

    def begin(self, folder: Path, resume: bool) -> None:
        """Where the folder's last checkpoint stands, if it is to be resumed."""
        found = checkpoint.load(folder) if resume else None
        if not resume and checkpoint.checkpoints(folder):
            fix = "resume it, or choose another folder"
            raise invalid("folder", "one without a training in it", str(folder), fix)
        if found is None:
            return
        self.check_identity(found)
        state = found.state
        set_tensors(self.model, found.tensors["weights"])
        if self.average is not None:
            set_tensors(self.average.module, found.tensors["average"])
            self.average.n_averaged.fill_(state["step"])
        self.restore_optimizer(found.tensors["optimizer"])
        self.step, self.place = state["step"], Place(*state["place"])
        self.history, self.before = History(state["history"]), state["seconds"]
        device = self.group.device
        self.recent = [
            {name: torch.tensor(value, device=device) for name, value in taken.items()}
            for taken in state["recent"]
        ]
        self.stream = self.corpus.stream(self.recipe.tokens, self.recipe.seed, self.place)

    def check_identity(self, found: checkpoint.Checkpoint) -> None:
        kept, mine = found.state["identity"], self.identity()
        for name in mine | kept:
            if kept.get(name) != mine.get(name):
                fix = "resume with what it began with, or begin in another folder"
                expected = f"{name}={kept.get(name)!r}, as in {found.path}"
                raise invalid("resume", expected, repr(mine.get(name)), fix)

    def restore_optimizer(self, tensors: Mapping[str, Tensor]) -> None:
        optimizer = self.update.optimizer
        states: dict[int, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            number, name = key.split(".")
            states.setdefault(int(number), {})[name] = tensor
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": states, "param_groups": groups})
