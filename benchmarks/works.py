"""What is measured: each work with its contestants and with the goal that was set for us."""

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch

from ctranslate import CTranslate2
from peers import Marian, Ours, Size, Torch, ragged, training_step, written
from timing import Run

SMALL = Size(d_model=256, n_heads=4, n_layers=3, d_ff=1024)
BASE = Size(d_model=512, n_heads=8, n_layers=6, d_ff=2048)
NEW_TOKENS = 64
Trained = dict[str, tuple[Any, ...]]  # of each its class, options of its loss, autocast's dtype


@dataclass(frozen=True)
class Work:
    name: str
    title: str
    prepare: Callable[[], dict[str, Run]]  # the contestants, the reader's first
    goals: tuple[tuple[str, str, float], ...]  # (ours, theirs, how many times as fast)
    rounds: int


def training(size: Size, rows: int, longest: int, peers: Trained) -> dict[str, Run]:
    source, target = (ragged(rows, n) for n in (longest, longest + 1))
    contestants = {}
    for name, (peer, options, dtype) in peers.items():
        model = peer(size)
        loss = functools.partial(model.loss, source, target, **options)
        contestants[name] = training_step(model, loss, dtype)
    return contestants


def searching(size: Size, rows: int, width: int, others: Collection[str]) -> dict[str, Run]:
    source = ragged(rows, 24)
    contestants: dict[str, Run] = {}
    for name in ("unmasked", *others):
        model = SEARCHED[name](size).eval()
        contestants[name] = functools.partial(written, model, source, width, NEW_TOKENS)
    return contestants


def beside_c(size: Size, rows: int, width: int) -> dict[str, Run]:
    """Ours and the same weights in C++: both write the same tokens, but for a tie in rounding."""
    source = ragged(rows, 24)
    ours = Ours(size, norm="pre").eval()
    models = {"unmasked": ours, "CTranslate2": CTranslate2(ours.model)}
    contestants: dict[str, Run] = {
        name: functools.partial(written, model, source, width, NEW_TOKENS)
        for name, model in models.items()
    }
    tokens, others = (written(each, source, width, NEW_TOKENS) for each in models.values())
    mine = [[str(token) for token in row if token] for row in tokens.flatten(1).tolist()]
    if (different := sum(a != b for a, b in zip(mine, others, strict=True))) > rows // 32:
        raise SystemExit(f"{size}, beam {width}: {different} of {rows} sentences differ")
    return contestants


def search(
    name: str, size: Size, rows: int, width: int, goals: dict[str, float], rounds: int
) -> Work:
    """One of ours; `goals` has the others, and how many times as fast as each ours should be."""
    what = "one sentence" if rows == 1 else f"batch {rows}"
    how = "greedy" if width == 1 else f"beam {width}"
    title = f"{how}, d={size.d_model}, {size.n_layers}+{size.n_layers} layers, {what}"
    prepare: Callable[[], dict[str, Run]]
    if "CTranslate2" in goals:
        prepare, title = functools.partial(beside_c, size, rows, width), f"{title}, beside C++"
    else:
        prepare = functools.partial(searching, size, rows, width, tuple(goals))
    each = tuple(("unmasked", other, goal) for other, goal in goals.items())
    return Work(name, f"{title}, {NEW_TOKENS} new tokens", prepare, each, rounds)


SEARCHED: dict[str, Any] = {
    "unmasked": Ours, "MarianMT": Marian, "nn.Transformer, recomputing": Torch,
}  # fmt: skip
TRAINED: Trained = {
    "unmasked": (Ours, {}, None), "unmasked, packed": (Ours, {"packed": True}, None),
    "nn.Transformer": (Torch, {}, None), "MarianMT": (Marian, {}, None),
}  # fmt: skip
HALVES: Trained = {
    "unmasked, bfloat16": (Ours, {}, torch.bfloat16), "unmasked, float32": (Ours, {}, None),
    "nn.Transformer, bfloat16": (Torch, {}, torch.bfloat16),
}  # fmt: skip
WORKS = (
    Work(
        "train-256",
        "training step, d=256, batch 64 × 24, ragged",
        functools.partial(training, SMALL, 64, 24, TRAINED),
        (("unmasked", "nn.Transformer", 1.1), ("unmasked, packed", "nn.Transformer", 1.3)),
        15,
    ),
    Work(
        "train-512",
        "training step, d=512, 6+6 layers, batch 16 × 32, ragged",
        functools.partial(training, BASE, 16, 32, TRAINED),
        (("unmasked", "nn.Transformer", 1.08), ("unmasked, packed", "nn.Transformer", 1.3)),
        9,
    ),
    Work(
        "bfloat16",
        "training step under bfloat16 autocast, d=256, batch 64 × 24",
        functools.partial(training, SMALL, 64, 24, HALVES),
        (
            ("unmasked, bfloat16", "unmasked, float32", 1.6),
            ("unmasked, bfloat16", "nn.Transformer, bfloat16", 1.3),
        ),
        15,
    ),
    search("greedy-256", SMALL, 32, 1, {"MarianMT": 1.15, "nn.Transformer, recomputing": 8.0}, 7),
    search("greedy-512", BASE, 32, 1, {"MarianMT": 1.05}, 5),
    search("greedy-one", SMALL, 1, 1, {"MarianMT": 1.4}, 21),
    search("beam-256", SMALL, 32, 5, {"MarianMT": 1.4}, 7),
    search("beam-512", BASE, 32, 5, {"MarianMT": 1.25}, 3),
    search("c-greedy-256", SMALL, 32, 1, {"CTranslate2": 1.0}, 15),
    search("c-greedy-512", BASE, 32, 1, {"CTranslate2": 1.0}, 9),
    search("c-one-256", SMALL, 1, 1, {"CTranslate2": 0.8}, 41),
    search("c-one-512", BASE, 1, 1, {"CTranslate2": 0.8}, 21),
    search("c-beam-256", SMALL, 32, 5, {"CTranslate2": 1.0}, 7),
    search("c-beam-512", BASE, 32, 5, {"CTranslate2": 1.0}, 5),
)
