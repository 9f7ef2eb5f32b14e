"""Judges answers to the exercises of chapter 4."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from unmasked_book.exercises.compare import number, same_form, same_tensor

NEAR = 0.9  # below this cosine with every key a layer has to give zero
Layer = tuple[Tensor, Tensor, Tensor, Tensor]  # w1 [d, N], b1 [N], w2 [N, e], b2 [e]


def absolute(answer: Callable[[], tuple[Tensor, Tensor]]) -> str | None:
    """Judges a reader's matrices W₁ [1, 2] and W₂ [2, 1]: max(0, x W₁) W₂ must be |x|."""
    first, second = answer()
    for name, weight, shape in (("W₁", first, (1, 2)), ("W₂", second, (2, 1))):
        if wrong := same_form(weight, torch.empty(shape), name):
            return wrong
    x = torch.tensor([[-3.0], [0.0], [0.5], [7.0]])
    return same_tensor((x @ first).relu() @ second, x.abs(), "the layer for -3, 0, 0.5 and 7")


def facts(answer: Callable[[Tensor, Tensor], Layer]) -> str | None:
    """Judges a layer that must map keys to their values, and vectors far from all keys to zero."""
    for n, width, out in ((3, 8, 2), (9, 4, 5), (1, 2, 1)):  # more keys than columns, too
        keys, values = apart(n, width), torch.randn(n, out)
        layer, shapes = answer(keys, values), ((width, n), (n,), (n, out), (out,))
        for name, weight, shape in zip(("w1", "b1", "w2", "b2"), layer, shapes, strict=True):
            case = f"for {n} keys of width {width} and values of width {out}, {name}"
            if wrong := same_form(weight, torch.empty(shape), case):
                return wrong
        w1, b1, w2, b2 = layer
        other = F.normalize(torch.randn(400, width), dim=-1)
        at_keys, at_others = ((x @ w1 + b1).relu() @ w2 + b2 for x in (keys, other))
        if wrong := same_tensor(at_keys, values, "the layer for the keys"):
            return wrong
        for got, cosine in zip(at_others, (other @ keys.T).amax(-1).tolist(), strict=True):
            case = f"for an x whose largest cosine with a key is {cosine:.3f}, the layer"
            if cosine < NEAR and (wrong := same_tensor(got, torch.zeros_like(got), case)):
                return wrong
    return None


def apart(n: int, width: int) -> Tensor:
    """Returns n random unit vectors [n, width] with cosines below 0.9."""
    keys = torch.empty(0, width)
    while len(keys) < n:
        key = F.normalize(torch.randn(1, width), dim=-1)
        if (keys @ key.T < NEAR).all():
            keys = torch.cat([keys, key])
    return keys


CHECKS = {
    "1": number(2_099_712),  # in a layer of 512 and 2048, with biases
    "2": absolute,
    "+": facts,
}
