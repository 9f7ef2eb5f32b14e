"""What is measured: each work with its contestants and with the goal that was set for us."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ctranslate import CTranslate2
from opus import caption, opus, processor
from peers import Marian, Ours, Size, Torch, ragged, training_step
from timing import Run
from unmasked_book.timing import timed

SMALL = Size(d_model=256, n_heads=4, n_layers=3, d_ff=1024)
BASE = Size(d_model=512, n_heads=8, n_layers=6, d_ff=2048)
NEW_TOKENS = 64
SHIPPED = "de-en as it ships, one sentence"


@dataclass(frozen=True)
class Work:
    name: str
    title: str
    prepare: Callable[[str], dict[str, Run]]  # device → contestants, the reader's first
    goals: tuple[tuple[str, str, float], ...]  # (ours, theirs, how many times as fast)
    rounds: int
    measure: Any = timed


def training(size: Size, rows: int, longest: int, device: str) -> dict[str, Run]:
    source, target = (ragged(rows, n, device=device) for n in (longest, longest + 1))
    ours, packed = Ours(size).to(device), Ours(size).to(device)
    contestants = {
        "unmasked": training_step(ours, lambda: ours.loss(source, target)),
        "unmasked, packed": training_step(packed, lambda: packed.loss(source, target, packed=True)),
    }
    others = {"nn.Transformer": Torch, "MarianMT": Marian}
    for name, peer in others.items():
        model: Any = peer(size).to(device)
        loss = functools.partial(model.loss, source, target)
        contestants[name] = training_step(model, loss)
    return contestants


def autocast(device: str) -> dict[str, Run]:
    source, target = (ragged(64, n, device=device) for n in (24, 25))
    contestants = {}
    for name, peer, dtype in (
        ("unmasked, bfloat16", Ours, torch.bfloat16),
        ("unmasked, float32", Ours, None),
        ("nn.Transformer, bfloat16", Torch, torch.bfloat16),
    ):
        model: Any = peer(SMALL).to(device)
        loss = functools.partial(model.loss, source, target)
        contestants[name] = training_step(model, loss, dtype)
    return contestants


def greedy(size: Size, rows: int, device: str, *, recomputing: bool = False) -> dict[str, Run]:
    source = ragged(rows, 24, device=device)
    peers: dict[str, type] = {"unmasked": Ours, "MarianMT": Marian}
    if recomputing:
        peers["nn.Transformer, recomputing"] = Torch
    contestants: dict[str, Run] = {}
    for name, peer in peers.items():
        model = peer(size).to(device).eval()
        contestants[name] = functools.partial(model.greedy, source, NEW_TOKENS)
    return contestants


def beam(size: Size, device: str) -> dict[str, Run]:
    source = ragged(32, 24, device=device)
    contestants: dict[str, Run] = {}
    for name, peer in {"unmasked": Ours, "MarianMT": Marian}.items():
        model: Any = peer(size).to(device).eval()
        contestants[name] = functools.partial(model.beam, source, 5, NEW_TOKENS)
    return contestants


def beside_c(size: Size, rows: int, device: str, *, width: int) -> dict[str, Run]:
    """Ours and the same weights in C++: both write the same tokens, but for a tie in rounding."""
    source = ragged(rows, 24, device=device)
    ours = Ours(size, norm="pre").to(device).eval()
    theirs = CTranslate2(ours.model)
    contestants: dict[str, Callable[[], Any]] = {
        "unmasked": lambda: found(ours, source, width),
        "CTranslate2": lambda: found(theirs, source, width),
    }
    tokens, others = (run() for run in contestants.values())
    mine = [[str(token) for token in row if token] for row in tokens.flatten(1).tolist()]
    if (different := sum(a != b for a, b in zip(mine, others, strict=True))) > rows // 32:
        raise SystemExit(f"{size}, beam {width}: {different} of {rows} sentences differ")
    return dict(contestants)


def found(model: Any, source: Tensor, width: int) -> Any:
    if width == 1:
        return model.greedy(source, NEW_TOKENS)
    return model.beam(source, width, NEW_TOKENS)


def in_c(name: str, size: Size, rows: int, width: int, goal: float, rounds: int) -> Work:
    what = "one sentence" if rows == 1 else f"batch {rows}"
    how = "greedy" if width == 1 else f"beam {width}"
    title = f"{how}, d={size.d_model}, {size.n_layers}+{size.n_layers} layers, {what}, beside C++"
    prepare = functools.partial(beside_c, size, rows, width=width)
    return Work(f"c-{name}", title, prepare, (("unmasked", "CTranslate2", goal),), rounds)


def in_processor_time(name: str, what: str, prepare: Any, rounds: int, *peers: str) -> Work:
    """These take long, and others may use the machine."""
    goals = tuple(("unmasked", who, 1.0) for who in ("unmasked, laid out anew", *peers))
    return Work(name, what, prepare, goals, rounds, processor)


def real_size(name: str, rows: int, width: int, rounds: int) -> Work:
    how = "greedy" if width == 1 else f"beam {width}"
    what = f"{how}, OPUS-MT's format and size, {rows} sentence{'s' * (rows > 1)}"
    prepare, peers = functools.partial(opus, rows, width), ("MarianMT", "CTranslate2")
    return in_processor_time(f"opus-{name}", what, prepare, rounds, *peers)


WORKS = (
    Work(
        "train-256",
        "training step, d=256, batch 64 × 24, ragged",
        lambda device: training(SMALL, 64, 24, device),
        (("unmasked", "nn.Transformer", 1.1), ("unmasked, packed", "nn.Transformer", 1.3)),
        15,
    ),
    Work(
        "train-512",
        "training step, d=512, 6+6 layers, batch 16 × 32, ragged",
        lambda device: training(BASE, 16, 32, device),
        (("unmasked", "nn.Transformer", 1.08), ("unmasked, packed", "nn.Transformer", 1.3)),
        9,
    ),
    Work(
        "bfloat16",
        "training step under bfloat16 autocast, d=256, batch 64 × 24",
        autocast,
        (
            ("unmasked, bfloat16", "unmasked, float32", 1.6),
            ("unmasked, bfloat16", "nn.Transformer, bfloat16", 1.3),
        ),
        15,
    ),
    Work(
        "greedy-256",
        "greedy, d=256, batch 32, 64 new tokens",
        lambda device: greedy(SMALL, 32, device, recomputing=True),
        (("unmasked", "MarianMT", 1.15), ("unmasked", "nn.Transformer, recomputing", 8.0)),
        7,
    ),
    Work(
        "greedy-512",
        "greedy, d=512, 6+6 layers, batch 32, 64 new tokens",
        lambda device: greedy(BASE, 32, device),
        (("unmasked", "MarianMT", 1.05),),
        5,
    ),
    Work(
        "greedy-one",
        "greedy, d=256, one sentence, 64 new tokens",
        lambda device: greedy(SMALL, 1, device),
        (("unmasked", "MarianMT", 1.4),),
        21,
    ),
    Work(
        "beam-256",
        "beam 5, d=256, batch 32, 64 new tokens",
        lambda device: beam(SMALL, device),
        (("unmasked", "MarianMT", 1.4),),
        7,
    ),
    Work(
        "beam-512",
        "beam 5, d=512, 6+6 layers, batch 32, 64 new tokens",
        lambda device: beam(BASE, device),
        (("unmasked", "MarianMT", 1.25),),
        3,
    ),
    in_c("greedy-256", SMALL, 32, 1, 1.0, 15),
    in_c("greedy-512", BASE, 32, 1, 1.0, 9),
    in_c("one-256", SMALL, 1, 1, 0.8, 41),
    in_c("one-512", BASE, 1, 1, 0.8, 21),
    in_c("beam-256", SMALL, 32, 5, 1.0, 7),
    in_c("beam-512", BASE, 32, 5, 1.0, 5),
    real_size("one", 1, 1, 9),
    real_size("one-beam", 1, 4, 9),
    real_size("32", 32, 1, 3),
    real_size("32-beam", 32, 4, 3),
    in_processor_time("caption-greedy", f"greedy, {SHIPPED}", functools.partial(caption, 1), 41),
    in_processor_time("caption-beam", f"beam 5, {SHIPPED}", functools.partial(caption, 5), 41),
)
