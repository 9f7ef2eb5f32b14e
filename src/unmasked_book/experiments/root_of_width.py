"""Why scores are divided by √K: what becomes of the softmax, and of learning, without it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from unmasked.attention import MultiHeadAttention
from unmasked.training.recipe import Recipe

from ..examples import speller
from .learning import learn, score, spelling_corpus

KINDS = ("divided by √K", "not divided")
RATES = (1e-3, 5e-3)


def scores(
    width: int, kind: str, draws: torch.Generator, *, rows: int = 256, n: int = 32
) -> Tensor:
    """Scores of random queries with n random keys, all of mean 0 and variance 1: [rows, n].

    `additive` is a network of that width with its usual start, vector · tanh(query + key).
    """
    query = torch.randn(rows, 1, width, generator=draws)
    key = torch.randn(rows, n, width, generator=draws)
    if kind == "additive":
        bound = 1 / math.sqrt(width)  # as nn.Linear draws its weights
        vector = (2 * torch.rand(width, generator=draws) - 1) * bound
        return torch.tanh(query + key) @ vector
    product = (query * key).sum(-1)
    return product / math.sqrt(width) if kind == "divided by √K" else product


def softmax_of(scores: Tensor) -> dict[str, float]:
    """Means over the rows: entropy in words, exp(H), and the norm of the gradient at the scores.

    The gradient is that of the largest weight, which a training would want to move.
    """
    at = scores.clone().requires_grad_()
    weights = at.softmax(-1)
    entropy = -(weights * weights.clamp_min(1e-38).log()).sum(-1)
    weights.amax(-1).sum().backward()
    assert at.grad is not None
    return {"words": entropy.exp().mean().item(), "gradient": at.grad.norm(dim=-1).mean().item()}


def undivided(model: nn.Module) -> nn.Module:
    """The same model, all of its attention without the division."""
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            root = math.sqrt(part.d_model // part.n_heads)
            part.query.register_forward_hook(lambda _, __, out, root=root: out * root)
    return model


def trial(kind: str, width: int, seed: int, rate: float, *, steps: int) -> dict[str, float]:
    """One layer with a single head as wide as the model, that learns to spell backwards."""
    model: nn.Module = speller(seed=seed, d_model=width, n_heads=1)
    model = model if kind == "divided by √K" else undivided(model)
    recipe = Recipe(steps=steps, rate=rate, warmup=max(1, steps // 5), tokens=640, smoothing=0.0,
                    seed=seed)  # fmt: skip
    learn(model, spelling_corpus(20 * steps, seed=seed), recipe)
    cross_entropy, right = score(model, spelling_corpus(500, seed=seed + 10_000))
    return {"surprise": cross_entropy, "right": right}


def measure(
    widths: Sequence[int] = (16, 64, 256), seeds: int = 5, steps: int = 300
) -> Iterator[dict[str, Any]]:
    """A row for each width and kind, at the better of two rates, found with a seed of its own."""
    for width, kind in product(widths, KINDS):
        rate = max(RATES, key=lambda r: trial(kind, width, 1000, r, steps=steps)["right"])
        results = [trial(kind, width, seed, rate, steps=steps) for seed in range(seeds)]
        yield {"width": width, "kind": kind, "rate": rate, "steps": steps, "trials": results}
