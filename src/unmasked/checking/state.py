"""Redraws a model for a check; restores it, random generators and numerical precision after."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


@contextmanager
def unchanged(model: nn.Module) -> Iterator[Callable[[], None]]:
    """Restores a model and the random generators at the end, and when the yielded one is called.

    Modules get back attributes, parameters and buffers, but not what other objects hold inside.
    """
    dicts: list[dict[str, Any]] = []
    for module in model.modules():
        dicts += [vars(module), *(d for d in vars(module).values() if isinstance(d, dict))]
    contents = [(each, dict(each)) for each in dicts]
    parts = chain(model.parameters(), model.buffers())
    tensors = [(x, x.detach().clone(), x.requires_grad, x.is_leaf) for x in parts]
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002

    def restore() -> None:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        for now, before in contents:
            if list(map(id, now.values())) != list(map(id, before.values())):
                now.clear()
                now.update(before)
        for tensor, numbers, trained, leaf in tensors:
            if tensor.shape != numbers.shape or tensor.dtype != numbers.dtype:
                tensor.data = numbers.clone()
            elif not torch.equal(tensor, numbers):
                tensor.data.copy_(numbers)
            if leaf and not tensor.is_leaf:  # a call wrote into it what it had computed
                tensor.detach_()
            if leaf:
                tensor.requires_grad_(trained)

    try:
        yield restore
    finally:
        restore()


@contextmanager
def precisely() -> Iterator[None]:
    """Switches to full float32 without cuDNN in a `with` block, and restores both at the end.

    cuDNN's convolutions take TF32, and its recurrent layers have no backward in evaluation mode.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def redrawn(model: M, seed: int = 0) -> M:
    """Draws the model's trained weights large enough for every part to show, and returns it."""
    draws = torch.Generator().manual_seed(seed)
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for name, weight in model.named_parameters():
        if not weight.is_floating_point() or not weight.requires_grad:
            continue
        drawn = torch.randn(weight.shape, generator=draws).to(weight)
        if weight.dim() < 2 or any(word in name for word in ("A_log", "norm", "conv")):
            weight.data.add_(0.1 * drawn)
        else:
            scale = 0.5 if id(weight) in embeddings else 1.2 * min(weight.shape[-2:]) ** -0.5
            weight.data.copy_(scale * drawn)
    return model
