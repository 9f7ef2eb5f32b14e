"""The state of one training: everything that changes from step to step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ..data.corpus import Place
from ..data.streaming import AnyCorpus
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
        self, model: Transformer, corpus: AnyCorpus, recipe: Recipe, group: Processes
    ) -> None:
        sizes = model.config.source_vocab, model.config.target_vocab
        if recipe.both_ways and sizes[0] != sizes[1]:
            fix = "both languages need the same words to be exchanged"
            raise invalid("both_ways", f"0 for vocabularies of {sizes}", recipe.both_ways, fix)
        self.model, self.corpus, self.recipe, self.group = model, corpus, recipe, group
        self.step, self.place, self.history = 0, Place(), History()
        self.recent: list[Tensor] = []  # what the last updates measured, not yet looked at
        self.taken: list[list[float]] = []  # all of that since the last note
        self.began = time.perf_counter()
        self.average: AveragedModel | None = None
        if recipe.average is not None:
            average = get_ema_multi_avg_fn(recipe.average)  # type: ignore[no-untyped-call]
            self.average = AveragedModel(model, multi_avg_fn=average)
        self.stream: Iterator[Any] = corpus.stream(recipe.tokens, recipe.seed)
        self.update = Updater(model, corpus, recipe, group)

    def advance(self) -> None:
        """One step."""
        numbers, place = next(self.stream)
        self.model.train()
        self.recent.append(self.update(self.step + 1, numbers))
        if self.average is not None:
            self.average.update_parameters(self.model)
        self.step, self.place = self.step + 1, place

    def measured(self) -> list[list[float]]:
        """Loss and norm of each update since the last note; an error if one is not finite."""
        if self.recent:
            self.taken += torch.stack(self.recent).tolist()
            self.recent = []
        for step, (loss, norm) in enumerate(self.taken, self.step - len(self.taken) + 1):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                advice = "lower the rate, warm up for longer, or clip the gradient"
                values = f"the loss is {loss} and the gradient's norm {norm}"
                raise FloatingPointError(f"{values} at step {step}: {advice}")
        return self.taken

    def note(self, watch: Callable[..., Mapping[str, float] | None] | None, writer: Any) -> Row:
        """A row of the history: the mean of what was measured since the last one."""
        row: Row = {}
        if taken := self.measured():
            loss, norm = (fmean(column) for column in zip(*taken, strict=True))
            rate = rate_at(self.step, self.recipe, self.model.config.d_model)
            row = {"loss": loss, "norm": norm, "rate": rate, "seconds": self.seconds()}
            self.taken = []
        if watch is not None and self.group.first:
            self.model.eval()
            seen = watch(self.step, self.model) or {}
            row |= {name: float(value) for name, value in seen.items()}
        if row:
            self.history.add(self.step, row)
        if writer:
            for name, value in row.items():
                writer.add_scalar(name, value, self.step)
        return row

    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def finish(self) -> None:
        if self.average is not None:
            set_tensors(self.model, tensors_of(self.average.module))

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What must be the same for a run to go on."""
        dtype = str(next(self.model.parameters()).dtype)
        own = {"data": self.corpus.fingerprint(), "dtype": dtype, "processes": self.group.count}
        return {**own, **asdict(self.model.config), **asdict(self.recipe)}

    def save(self, folder: Path) -> None:
        """A checkpoint, written by the first process."""
        self.measured()
        if not self.group.first:
            return
        tensors = {"weights": tensors_of(self.model), "optimizer": {}}
        for number, state in self.update.optimizer.state_dict()["state"].items():
            tensors["optimizer"] |= {f"{number}.{name}": x for name, x in state.items()}
        if self.average is not None:
            tensors["average"] = tensors_of(self.average.module)
        state = {"step": self.step, "place": self.place, "taken": self.taken,
                 "seconds": self.seconds(), "history": self.history.rows,
                 "identity": self.identity}  # fmt: skip
        checkpoint.save(folder, self.step, tensors, state)

    def begin(self, folder: Path, resume: bool) -> None:
        """Where the folder's last checkpoint stands, if it is to be resumed."""
        found = checkpoint.load(folder) if resume else None
        if not resume and checkpoint.checkpoints(folder):
            fix = "resume it, or choose another folder"
            raise invalid("folder", "one without a training in it", str(folder), fix)
        if found:
            self.check_identity(found)
            self.restore(found)
        if self.group.first:
            folder.mkdir(parents=True, exist_ok=True)  # refused now, rather than after an hour
            checkpoint.tidy(folder)

    def restore(self, found: checkpoint.Checkpoint) -> None:
        state = found.state
        set_tensors(self.model, found.tensors["weights"])
        if self.average is not None:
            set_tensors(self.average.module, found.tensors["average"])
            self.average.n_averaged.fill_(state["step"])
        states: dict[int, dict[str, Tensor]] = {}
        for key, tensor in found.tensors["optimizer"].items():
            number, name = key.split(".")
            states.setdefault(int(number), {})[name] = tensor
        optimizer = self.update.optimizer
        optimizer.load_state_dict({**optimizer.state_dict(), "state": states})
        self.step, self.place = state["step"], Place(*state["place"])
        self.history, self.began = History(state["history"]), self.began - state["seconds"]
        self.taken = state["taken"]
        self.stream = self.corpus.stream(self.recipe.tokens, self.recipe.seed, self.place)

    def check_identity(self, found: checkpoint.Checkpoint) -> None:
        kept, mine = found.state["identity"], self.identity
        for name in mine | kept:
            if kept.get(name) != mine.get(name):
                fix = "resume with what it began with, or begin in another folder"
                expected = f"{name}={kept.get(name)!r}, as in {found.path}"
                raise invalid("resume", expected, repr(mine.get(name)), fix)
