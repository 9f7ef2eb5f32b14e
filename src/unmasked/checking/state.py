"""Restores a model, random generators and numerical precision after a check."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn


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
