"""One update of the weights, computed in parts: by several processes, or one after the other.

The loss of an update is the mean over all its labels. A part is divided by that same number, so
that the parts add up to the whole, however the sentences are shared out.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..data.streaming import AnyCorpus
from ..loss import translation_loss
from ..transformer import Transformer
from .processes import Processes
from .recipe import Recipe, goes_back, optimizer_for, rate_at


class LossOf(nn.Module):
    """The model with its loss: what is compiled, and what several processes run."""

    def __init__(self, model: Transformer, recipe: Recipe) -> None:
        super().__init__()
        self.model = model
        self.options = {"smoothing": recipe.smoothing, "packed": recipe.packed}

    def forward(self, source: Tensor | None, target: Tensor | None, total: int) -> Tensor:
        if source is None or target is None:  # nothing for this process: it waits for the others
            return torch.stack([0.0 * p.sum() for p in self.model.parameters()]).sum()
        return translation_loss(self.model, source, target, total=total, **self.options)  # type: ignore[arg-type]


class Updater:
    """Takes the sentences of an update and changes the weights."""

    def __init__(
        self, model: Transformer, corpus: AnyCorpus, recipe: Recipe, group: Processes
    ) -> None:
        self.model, self.corpus, self.recipe, self.group = model, corpus, recipe, group
        self.optimizer = optimizer_for(model, recipe)
        module: Any = LossOf(model, recipe)
        if recipe.compile:
            module = torch.compile(module, dynamic=True)
        if group.count > 1:
            on_gpu = [group.device] if group.device.type == "cuda" else None
            module = DistributedDataParallel(module, device_ids=on_gpu)
            module(None, None, 1).backward()  # the order of its sums is settled by the first one
        self.module = module

    def __call__(self, step: int, numbers: Sequence[Any]) -> Tensor:
        """The loss, and the gradient's norm before it was clipped: [2], in all processes."""
        recipe, group = self.recipe, self.group
        seed = (int(recipe.seed) * 1_000_003 + step) * 1_009 + group.rank
        torch.manual_seed(seed)  # of this step alone: whoever resumes here draws the same
        rate = rate_at(step, recipe, self.model.config.d_model)
        self.optimizer.zero_grad()  # whatever was left there
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = rate
        back = goes_back(step, recipe)
        total = self.corpus.labels(numbers, back)
        losses = []
        for part in range(recipe.accumulate):
            mine = numbers[part * group.count + group.rank :: recipe.accumulate * group.count]
            last = part == recipe.accumulate - 1
            with nullcontext() if last or group.count == 1 else self.module.no_sync():
                losses.append(self.part(mine, total, back))
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip or torch.inf)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return torch.stack([group.total(torch.stack(losses).sum()), norm])

    def part(self, numbers: Sequence[Any], total: int, back: bool) -> Tensor:
        batch: Any = (None, None)
        if numbers:
            batch = [x.to(self.group.device) for x in self.corpus.batch(numbers, back)]
        half = self.recipe.precision == "bfloat16"
        with torch.autocast(self.group.device.type, torch.bfloat16, enabled=half):
            loss: Tensor = self.module(*batch, total)
        (loss * self.group.count).backward()  # type: ignore[no-untyped-call]  # the mean is taken
        return loss.detach()
