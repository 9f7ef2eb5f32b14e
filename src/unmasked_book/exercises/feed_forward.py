"""Chapter 4's exercises."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from unmasked_book.exercises.compare import number, same_form, same_tensor

NEAR = 0.9  # the cosine from which on a layer may remember
Layer = tuple[Tensor, Tensor, Tensor, Tensor]  # w1 [d, N], b1 [N], w2 [N, e], b2 [e]


def absolute(answer: Callable[[], tuple[Tensor, Tensor]]) -> str | None:
    """Matrices [1, 2] and [2, 1] with max(0, x W₁) W₂ = |x|."""
    first, second = answer()
    for name, weight, shape in (("W₁", first, (1, 2)), ("W₂", second, (2, 1))):
        if wrong := same_form(weight, torch.empty(shape), name):
            return wrong
    x = torch.tensor([[-3.0], [0.0], [0.5], [7.0]])
    return same_tensor((x @ first).relu() @ second, x.abs(), "the layer for -3, 0, 0.5 and 7")


def facts(answer: Callable[[Tensor, Tensor], Layer]) -> str | None:
    """A layer that gives a value for each key, and zero for what is near to none."""
    for n, width, out in ((3, 8, 2), (9, 4, 5), (1, 2, 1)):  # more keys than columns, too
        keys, values = apart(n, width), torch.randn(n, out)
        layer, shapes = answer(keys, values), ((width, n), (n,), (n, out), (out,))
        for name, weight, shape in zip(("w1", "b1", "w2", "b2"), layer, shapes, strict=True):
            case = f"for {n} keys of width {width} and values of width {out}, {name}"
            if wrong := same_form(weight, torch.empty(shape), case):
                return wrong
        if wrong := remembers(layer, keys, values):
            return wrong
    return None


def apart(n: int, width: int) -> Tensor:
    """Directions with cosines below 0.9: [n, width]."""
    keys = torch.empty(0, width)
    while len(keys) < n:
        key = F.normalize(torch.randn(1, width), dim=-1)
        if (keys @ key.T < NEAR).all():
            keys = torch.cat([keys, key])
    return keys


def remembers(layer: Layer, keys: Tensor, values: Tensor) -> str | None:
    """Whether the layer gives values[i] for keys[i], and nothing for other x of length 1."""
    w1, b1, w2, b2 = layer
    if wrong := same_tensor((keys @ w1 + b1).relu() @ w2 + b2, values, "the layer for the keys"):
        return wrong
    other = F.normalize(torch.randn(400, keys.shape[1]), dim=-1)
    results = (other @ w1 + b1).relu() @ w2 + b2
    for got, cosine in zip(results, (other @ keys.T).amax(-1).tolist(), strict=True):
        case = f"for an x whose largest cosine with a key is {cosine:.3f}, the layer"
        if cosine < NEAR and (wrong := same_tensor(got, torch.zeros_like(got), case)):
            return wrong
    return None


CHECKS = {
    "1": number(2_099_712),  # in a layer of 512 and 2048, with biases
    "2": absolute,
    "+": facts,
}
