"""Makes inputs on which a reader's function or class is tried: many small cases, a few large ones.

Every known mistake shows in a large one: its sizes differ from each other, or are equal where a
wrong order of arguments would otherwise only be an error of shapes. Each query sees a key.
"""

import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from unmasked import plain
from unmasked_book.workshop.reference import STEPS

RATES = (0.5, 1.0, 0.0)  # of dropout: in evaluation, and in training, twice


@dataclass(frozen=True, eq=False)
class Case:
    words: str
    sizes: tuple[Any, ...]  # arguments of the class's constructor
    inputs: dict[str, Any]  # in the order of the arguments
    real: Tensor | None = None  # [B, T]: True where the output is compared
    training: bool = False  # then dropout drops all or nothing, so nothing depends on chance


class Script(nn.Module):
    """A Script replaces a Transformer: random logits [B, T, 6], fixed by source and prefix."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        if len(source) != len(target):
            raise ValueError(f"model(source, target) got {len(source)} and {len(target)} sentences")
        rows = [
            [logits([t for t in read if t], written[: n + 1]) for n in range(len(written))]
            for read, written in zip(source.tolist(), target.tolist(), strict=True)
        ]
        return self.scale * torch.tensor(rows)


def logits(read: list[int], written: list[int]) -> list[float]:
    """Returns 6 random logits, fixed by source and target prefix; padding's is often largest."""
    draws = random.Random(zlib.crc32(f"{read} {written}".encode()))
    padding, bos, eos, *words = (draws.gauss(0, 1) for _ in range(6))
    end = -4.0 if read[0] % 2 else 0.8 if len(written) > 2 else -1.0
    return [padding + 1, bos - 0.5, eos + end, *words]


def numbers(*shape: int) -> Tensor:
    """Returns random numbers with one decimal, so that a case can be computed by hand."""
    return (torch.randn(shape) * 10).round() / 10


def drawn_mask(hidden: int, *shapes: tuple[int, ...]) -> Tensor:
    """Returns a random mask of the `hidden`-th shape; each query sees a key, for 0 all keys."""
    shape = shapes[max(hidden - 1, 0)]
    mask = torch.rand(shape) > 0.5 * bool(hidden)
    kept = torch.arange(shape[-2])[:, None] % shape[-1] == torch.arange(shape[-1])
    return mask | kept


def sentences(batch: int, length: int, hidden: int, vocabulary: int = 9) -> Tensor:
    """Returns random token IDs [B, S]; if `hidden`, all rows but the first end with padding."""
    tokens = torch.randint(3, vocabulary, (batch, length))
    if hidden:
        ends = torch.tensor([length - min(row, length - 1) for row in range(batch)])
        tokens = tokens.masked_fill(torch.arange(length) >= ends[:, None], 0)
    return tokens


def targets(batch: int, length: int, hidden: int) -> Tensor:
    """Returns random target sentences [B, T]: <bos>, words, <eos> and, if `hidden`, padding."""
    tokens = sentences(batch, length, hidden, 6)
    tokens[:, 0] = 1
    last = (tokens != 0).sum(1, keepdim=True) - 1
    return tokens.scatter(1, last.clamp(min=1), 2)


def padding_mask(batch: int, length: int, first: int) -> Case:
    tokens = torch.arange(first, first + batch * length).view(batch, length) * 2 % 5
    return Case(f"B = {batch}, S = {length}", (), {"tokens": tokens})


def causal_mask(n: int) -> Case:
    return Case(f"n = {n}", (), {"n": n})


def positions(length: int, d_model: int) -> Case:
    words = f"length = {length}, d_model = {d_model}"
    return Case(words, (), {"length": length, "d_model": d_model})


def attention(b: int, h: int, q: int, s: int, k: int, e: int, hidden: int, sharp: int = 1) -> Case:
    mask = drawn_mask(hidden, (b, 1, q, s), (q, s), (b, 1, 1, s))
    words = f"B = {b}, H = {h}, T = {q}, S = {s}, d_k = {k}, E = {e}"
    queries, keys, values = sharp * numbers(b, h, q, k), numbers(b, h, s, k), numbers(b, h, s, e)
    return Case(words, (), {"q": queries, "k": keys, "v": values, "mask": mask})


def multihead(d: int, h: int, b: int, t: int, s: int, hidden: int, train: int = 0) -> Case:
    mask = drawn_mask(hidden, (b, 1, t, s), (t, s), (b, 1, 1, s))
    words = f"D = {d}, H = {h}, B = {b}, T = {t}, S = {s}"
    inputs = {"x": numbers(b, t, d), "y": numbers(b, s, d), "mask": mask}
    return Case(words, (d, h), inputs, training=bool(train))


def feed_forward(d: int, f: int, b: int, t: int, size: int = 1, train: int = 0) -> Case:
    words = f"d_model = {d}, d_ff = {f}, B = {b}, T = {t}"
    return Case(words, (d, f), {"x": size * numbers(b, t, d)}, training=bool(train))


def encoder_layer(d: int, h: int, f: int, b: int, s: int, hidden: int, train: int = 0) -> Case:
    words = f"D = {d}, H = {h}, d_ff = {f}, B = {b}, S = {s}"
    inputs = {"x": numbers(b, s, d), "mask": drawn_mask(hidden, (b, 1, 1, s))}
    return Case(words, (d, h, f, RATES[train]), inputs, training=bool(train))


def decoder_layer(
    d: int, h: int, f: int, b: int, t: int, s: int, hidden: int, train: int = 0
) -> Case:
    words = f"D = {d}, H = {h}, d_ff = {f}, B = {b}, T = {t}, S = {s}"
    causal = plain.causal_mask(t) if hidden else torch.ones(t, t, dtype=torch.bool)
    real = drawn_mask(hidden, (b, 1, 1, s))
    x, memory = numbers(b, t, d), numbers(b, s, d)
    inputs = {"x": x, "memory": memory, "mask": causal, "memory_mask": real}
    return Case(words, (d, h, f, RATES[train]), inputs, training=bool(train))


def transformer(
    v: int, d: int, h: int, n: int, f: int, b: int, s: int, t: int, hidden: int, train: int = 0
) -> Case:
    words = f"N = {n}, D = {d}, H = {h}, B = {b}, S = {s}, T = {t}"
    source, target = sentences(b, s, hidden, v), sentences(b, t, hidden, v)
    target[1:, t // 2] *= 1 - hidden * (t > 2)  # padding in the middle, too
    sizes = (v, v + 3 * (s != t), d, h, n, f, RATES[train])
    return Case(words, sizes, {"source": source, "target": target}, target != 0, bool(train))


def generate(batch: int, n: int, first: int) -> Case:
    source = sentences(batch, 3, hidden=1)
    source[:, 0] = 2 * source[:, 0] + first % 2 * torch.arange(batch) % 2  # odd: <eos> comes late
    return Case(f"B = {batch}, n = {n}", (), {"model": Script(), "source": source, "n": n})


def loss(batch: int, length: int, hidden: int) -> Case:
    source, target = sentences(batch, length, hidden), targets(batch, length, hidden)
    inputs = {"model": Script(), "source": source, "target": target}
    return Case(f"B = {batch}, T = {length}", (), inputs)


Makes = Callable[..., Case]
Ranges = tuple[tuple[int, ...], ...]
ONE, TWO, THREE = (1,), (1, 2), (1, 2, 3)
PLANS: dict[str, tuple[Makes, Ranges, Ranges]] = {  # small sizes, all their products; large ones
    "padding_mask": (padding_mask, (TWO, THREE, (3, 4, 5, 6)), ((3, 7, 0), (4, 6, 3))),
    "causal_mask": (causal_mask, ((1, 2, 3, 4),), ((5,), (8,), (300,))),
    "positions": (positions, (THREE, (2, 4)), ((7, 12), (40, 6), (5, 32), (300, 4))),
    "attention": (attention, (TWO, TWO, TWO, TWO, TWO, ONE, (0, 1)),
                  ((3, 2, 6, 6, 5, 5, 1), (3, 2, 4, 7, 5, 6, 1), (2, 3, 5, 4, 6, 2, 2),
                   (2, 1, 3, 8, 4, 3, 3), (2, 2, 3, 5, 6, 4, 1, 60))),
    "MultiHeadAttention": (multihead, ((2, 4), TWO, TWO, TWO, TWO, (0, 1)),
                           ((12, 3, 2, 6, 6, 1), (12, 2, 3, 5, 7, 1), (8, 4, 2, 5, 5, 2),
                            (6, 3, 2, 4, 9, 3), (4, 2, 2, 3, 5, 1, 1))),
    "FeedForward": (feed_forward, (TWO, TWO, TWO, TWO),
                    ((6, 10, 3, 4), (8, 5, 2, 7), (5, 9, 2, 3, 40), (4, 8, 2, 3, 1, 1))),
    "EncoderLayer": (encoder_layer, ((4,), (2,), (2,), TWO, TWO, (0, 1)),
                     ((12, 3, 10, 2, 7, 1), (8, 2, 20, 3, 5, 1), (8, 2, 12, 3, 5, 1, 1),
                      (8, 2, 12, 3, 5, 1, 2))),
    "DecoderLayer": (decoder_layer, ((4,), (2,), (2,), TWO, TWO, TWO, (0, 1)),
                     ((12, 3, 10, 2, 6, 6, 1), (8, 2, 20, 3, 5, 7, 1), (8, 2, 12, 2, 6, 6, 1, 1),
                      (8, 2, 12, 2, 6, 6, 1, 2))),
    "Transformer": (transformer, ((6,), (4,), (2,), ONE, (2,), TWO, TWO, TWO, (0, 1)),
                    ((9, 12, 3, 3, 10, 3, 6, 6, 1), (11, 8, 2, 2, 20, 4, 7, 5, 1),
                     (9, 8, 2, 2, 12, 2, 6, 6, 1, 1), (9, 8, 2, 2, 12, 2, 6, 6, 1, 2),
                     (9, 8, 2, 1, 12, 2, 300, 3, 1))),
    "generate": (generate, (TWO, THREE, (0, 1, 2, 3)), ((5, 7, 0), (6, 9, 2), (4, 25, 5))),
    "loss": (loss, (TWO, (2, 3), (0, 1)), ((4, 6, 1), (3, 8, 1))),
}  # fmt: skip


@cache
def probes(step: str) -> tuple[Case, ...]:
    """Returns the large cases for the function or class `step`; all known mistakes show in them."""
    make, _, large = PLANS[step]
    return tuple(made(make, sizes) for sizes in large)


def small(step: str) -> Iterator[Case]:
    """Yields the small cases of the function or class `step`, the smallest first."""
    make, ranges, _ = PLANS[step]
    for sizes in sorted(product(*ranges), key=lambda sizes: (sum(sizes), sizes)):
        yield made(make, sizes)


def made(make: Makes, sizes: tuple[int, ...]) -> Case:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(zlib.crc32(f"{make.__name__} {sizes}".encode()))
        return make(*sizes)


@cache
def weights(step: str, sizes: tuple[Any, ...]) -> dict[str, Tensor]:
    """Returns random parameters by name for plain.py's class `step`, so that no two are alike."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(STEPS.index(step))
        module: nn.Module = getattr(plain, step)(*sizes)
        for parameter in module.parameters():
            nn.init.normal_(parameter, std=0.5)
        return {name: x.detach() for name, x in module.named_parameters()}
