"""Deep stacks of encoder layers, with and without what lets them be deep (chapter 5).

The task needs attention and positions: six letters go in, and each position must name the letter
that stands as far from the other end. `Kind` says what is around each sublayer. A run keeps the
cross-entropy of each step, the first layer's gradient at the start, and how many letters of new
words are right at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unmasked.config import LayerConfig
from unmasked.encoder import Encoder, Residual
from unmasked.errors import invalid
from unmasked.positions import sinusoids

LETTERS, LENGTH, BATCH = 26, 6, 32
WIDTH, HEADS = 64, 4


class Kind(NamedTuple):
    residuals: bool
    norm: Literal["post", "pre", "none"]
    start: Literal["Glorot", "scaled", "PyTorch's"] = "Glorot"

    def __str__(self) -> str:
        norm = "no norm" if self.norm == "none" else f"{self.norm}-norm"
        start = "" if self.start == "Glorot" else f", {self.start}"
        return f"{norm}, {'residuals' if self.residuals else 'no residuals'}{start}"


KINDS = (
    Kind(True, "post"), Kind(True, "pre"), Kind(True, "none"),
    Kind(False, "post"), Kind(False, "pre"), Kind(False, "none"),
)  # fmt: skip
SCALED = tuple(kind._replace(start="scaled") for kind in KINDS[:3])
AS_DRAWN = tuple(kind._replace(start="PyTorch's") for kind in KINDS)


class Around(Residual):
    """What stands around a sublayer, by its kind."""

    kind: Kind

    def forward(self, x: Tensor, sublayer: Callable[..., Tensor], **options: object) -> Tensor:
        y = sublayer(self.norm(x) if self.kind.norm == "pre" else x, **options)
        y = x + y if self.kind.residuals else y
        return self.norm(y) if self.kind.norm == "post" else y


def stack(layers: int, kind: Kind, *, seed: int = 0, d_model: int = WIDTH) -> Encoder:
    """An encoder of this kind.

    Its matrices are drawn as the package draws them (Glorot), or as `nn.Linear` does, or like the
    package's, but smaller by √(2 layers) where they write into the stream.
    """
    torch.manual_seed(seed)
    config = LayerConfig(d_model=d_model, n_heads=HEADS, d_ff=4 * d_model, dropout=0.0)
    encoder = Encoder(config, layers, final_norm=kind.norm == "pre")
    for module in encoder.modules():
        if isinstance(module, Residual):
            module.__class__ = Around
            setattr(module, "kind", kind)  # noqa: B010 (a Residual has none)
    for parameter in encoder.parameters():
        if parameter.dim() > 1 and kind.start != "PyTorch's":
            nn.init.xavier_uniform_(parameter)
    if kind.start == "scaled":
        with torch.no_grad():
            for layer in encoder.layers:
                for name in ("self_attention.output.weight", "feed_forward.contract.weight"):
                    layer.get_parameter(name).div_(math.sqrt(2 * layers))
    return encoder


class Mirror(nn.Module):
    """Letters [B, S] → at each position, scores of the letter at its mirror image [B, S, 26]."""

    def __init__(self, layers: int, kind: Kind, seed: int) -> None:
        super().__init__()
        self.encoder = stack(layers, kind, seed=seed)
        self.letters, self.scores = nn.Embedding(LETTERS, WIDTH), nn.Linear(WIDTH, LETTERS)
        self.register_buffer("places", sinusoids(0, LENGTH, WIDTH).float())

    def forward(self, letters: Tensor) -> Tensor:
        x = self.letters(letters) + self.get_buffer("places")
        return self.scores(self.encoder(x))

    def loss(self, letters: Tensor) -> Tensor:
        return F.cross_entropy(self(letters).flatten(0, 1), letters.flip(1).flatten())


class Learnt(NamedTuple):
    losses: list[float]  # of each step
    gradient: float  # of the first layer's second feed-forward matrix, at the first step
    right: float  # share of the letters of new words
    alike: float  # share of new words for which it names one letter at all positions


def words(count: int, draws: torch.Generator) -> Tensor:
    return torch.randint(LETTERS, (count, LENGTH), generator=draws)


def learn_to_mirror(
    kind: Kind,
    *,
    layers: int = 12,
    steps: int = 400,
    rate: float = 1e-3,
    warmup: int = 100,
    seed: int = 0,
) -> Learnt:
    """Trains with Adam; the rate grows for `warmup` steps and then stays."""
    draws = torch.Generator().manual_seed(seed)
    model = Mirror(layers, kind, seed)
    optimizer = torch.optim.Adam(model.parameters(), rate)
    watched = model.get_parameter("encoder.layers.0.feed_forward.contract.weight")
    losses, first = list[float](), math.nan
    for step in range(1, steps + 1):
        loss = model.loss(words(BATCH, draws))
        optimizer.zero_grad()
        loss.backward()
        if step == 1:
            first = grad_norm(watched)
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, step / warmup)
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        unseen = words(500, torch.Generator().manual_seed(seed + 10_000))
        named = model(unseen).argmax(-1)
    right = (named == unseen.flip(1)).float().mean().item()
    return Learnt(losses, first, right, (named == named[:, :1]).all(1).float().mean().item())


def grad_norm(parameter: Tensor) -> float:
    """The length of its gradient; 0 where none has reached it."""
    return 0.0 if parameter.grad is None else parameter.grad.norm().item()


RATES = (1e-4, 3e-4, 1e-3, 3e-3)
LOWER = 3e-5
WARMED, AT_ONCE = 100, 1  # steps of warm-up; one is none
STEPS = 600


def trials() -> list[dict[str, Any]]:
    """What is recorded: every kind with warm-up, and without it those that people use.

    Those also with the paper's six layers; twelve layers of post-norm once for longer; matrices
    that begin smaller; and a lower rate for those whose best would else be the lowest.
    """
    usual = [kind for kind in KINDS if kind.residuals and kind.norm != "none"]
    deep = [(12, kind, WARMED) for kind in KINDS] + [(12, kind, AT_ONCE) for kind in usual]
    shallow = [(2, kind, WARMED) for kind in KINDS]
    papers = [(6, kind, WARMED) for kind in usual]
    smaller = [(12, kind, WARMED) for kind in SCALED] + [(6, kind, AT_ONCE) for kind in usual]
    planned = [*product(deep + shallow + papers, RATES), *product(smaller, RATES)]
    planned += [((12, kind, WARMED), LOWER) for kind in KINDS[3:5]]
    planned += product([(n, kind, WARMED) for n in (12, 2) for kind in AS_DRAWN], RATES[1:3])
    planned += [((12, kind, WARMED), RATES[0]) for kind in AS_DRAWN[3:]]
    longer = {"layers": 12, "kind": KINDS[0], "warmup": 500, "rate": 3e-4, "steps": 5 * STEPS}
    return [
        {"layers": layers, "kind": kind, "warmup": warmup, "rate": rate, "steps": STEPS}
        for (layers, kind, warmup), rate in planned
    ] + [longer]


def trial(options: dict[str, Any], seeds: int = 5) -> dict[str, Any]:
    """One row of the record; the losses are means of twenty steps."""
    runs = [learn_to_mirror(**options, seed=seed) for seed in range(seeds)]
    return {
        **named(options),
        "right": [round(run.right, 4) for run in runs],
        "gradient": [float(f"{run.gradient:.3g}") for run in runs],
        "losses": [thinned(run.losses) for run in runs],
    }


def best(
    rows: Sequence[dict[str, Any]], layers: int, kind: str, warmup: int = WARMED
) -> dict[str, Any]:
    """Of a record's rows of this kind, the one whose rate got most letters right on average."""
    these = [row for row in rows if (row["layers"], row["kind"], row["warmup"]) ==
             (layers, kind, warmup)]  # fmt: skip
    if not these:
        raise invalid("kind", "a kind, depth and warm-up of the record", repr(kind), "see trials()")
    return max(these, key=lambda row: sum(row["right"]))


def named(options: dict[str, Any]) -> dict[str, Any]:
    """A trial's options as they stand in the record."""
    return {**options, "kind": str(options["kind"])}


def thinned(losses: list[float], every: int = 20) -> list[float]:
    parts = [losses[i : i + every] for i in range(0, len(losses), every)]
    return [float(f"{sum(part) / len(part):.4g}") for part in parts]
