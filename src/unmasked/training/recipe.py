"""Holds the settings of a training: steps, learning rate, optimizer, precision and random seed.

The same recipe, data, processor and number of threads give the same weights.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from ..errors import (
    invalid,
    require_choice,
    require_number,
    require_probability,
    require_seed,
    require_whole,
)

CHOICES = {
    "schedule": ("trapezoid", "paper"), "optimizer": ("adamw", "adam"),
    "precision": ("float32", "bfloat16"), "packed": (True, False), "compile": (True, False),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Recipe:
    steps: int = 1200  # updates
    tokens: int = 640  # tokens of the longer side in one update, padding included
    accumulate: int = 1  # parts in which an update is computed, where memory is short
    rate: float | None = 5e-3  # the highest learning rate; None: (d_model · warmup) ** -0.5 (5.3)
    schedule: Literal["trapezoid", "paper"] = "trapezoid"
    warmup: int = 120  # steps until the highest rate
    cooldown: float = 0.4  # the last share of the steps, in which a trapezoid falls to 0
    both_ways: float = 0.0  # the first share of the steps, in which every other translates back
    optimizer: Literal["adamw", "adam"] = "adamw"
    beta2: float = 0.98
    weight_decay: float = 0.01  # for matrices, and only with adamw
    clip: float | None = 1.0  # the largest norm that a gradient keeps
    smoothing: float = 0.1  # label smoothing
    average: float | None = None  # keep an exponential average of the weights, with this decay
    packed: bool = False  # leave padding out of the position-wise layers
    precision: Literal["float32", "bfloat16"] = "float32"
    patience: int | None = None  # notes without a better `validation` after which training ends
    compile: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "tokens", "warmup"):
            require_whole(name, getattr(self, name), 1, 10**9)
        require_whole("accumulate", self.accumulate, 1, 10**5)
        require_seed(self.seed)
        if self.patience is not None:
            require_whole("patience", self.patience)
        for name, choices in CHOICES.items():
            require_choice(name, getattr(self, name), choices)
        require_number("beta2", self.beta2, 1e-9, 1 - 1e-9, "0.98 is the paper's")
        for name in ("weight_decay", "smoothing"):
            require_probability(name, getattr(self, name))
        for name in ("cooldown", "both_ways"):
            require_number(name, getattr(self, name), 0.0, 1.0, "it is a share of the steps")
        if self.rate is not None:
            require_number("rate", self.rate, 0.0, 1.0, "0.003 is a good first try")
        if self.clip is not None:
            require_number("clip", self.clip, 1e-9, 1e9, "None does not clip")
        if self.average is not None:
            require_probability("average", self.average)
        if self.schedule == "trapezoid" and self.rate is None:
            fix = "None is the paper's own, for schedule='paper'"
            raise invalid("rate", "a number for the trapezoid", None, fix)


def goes_back(step: int, recipe: Recipe) -> bool:
    """Returns True if a step, counted from 1, trains target to source (Ding et al., 2021)."""
    return step % 2 == 0 and step <= recipe.both_ways * recipe.steps


def rate_at(step: int, recipe: Recipe, d_model: int) -> float:
    """Returns the learning rate of a step, counted from 1.

    The paper's schedule (equation 3) rises in a line and falls like 1/√step. The trapezoid rises in
    a line, stays, and falls in a line to nearly 0 at the end.
    """
    require_whole("step", step)
    peak = (d_model * recipe.warmup) ** -0.5 if recipe.rate is None else recipe.rate
    rising = step / recipe.warmup
    if recipe.schedule == "paper":
        return peak * min(rising, math.sqrt(recipe.warmup / step))
    falling = (recipe.steps - step + 1) / max(1.0, recipe.cooldown * recipe.steps)
    return peak * min(rising, 1.0, falling)


def optimizer_for(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Returns the paper's Adam (5.3), or AdamW, which decays matrices, but no biases and norms."""
    parameters = list(model.parameters())
    options: dict[str, Any] = {"betas": (0.9, recipe.beta2), "eps": 1e-9, "fused": True}
    if recipe.optimizer == "adam":
        return torch.optim.Adam(parameters, **options)
    matrices = [p for p in parameters if p.dim() > 1]
    vectors = [p for p in parameters if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay},
              {"params": vectors, "weight_decay": 0.0}]  # fmt: skip
    return torch.optim.AdamW(groups, **options)
