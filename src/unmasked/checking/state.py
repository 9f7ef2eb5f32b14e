"""Keeps a model and the machine's settings as they were before a check."""

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
    """Puts a model and the global random numbers back at the end and when the function is called.

    Modules get back their attributes, parameters and buffers, but not what their objects hold.
    """
    dicts: list[dict[str, Any]] = []
    for module in model.modules():
        dicts += [vars(module), *(d for d in vars(module).values() if isinstance(d, dict))]
    contents = [(each, dict(each)) for each in dicts]
    parts = chain(model.parameters(), model.buffers())
    tensors = [(each, each.detach().clone(), each.requires_grad) for each in parts]
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002

    def restore() -> None:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        for now, before in contents:
            if list(map(id, now.values())) != list(map(id, before.values())):
                now.clear()
                now.update(before)
        for tensor, numbers, trained in tensors:
            if tensor.shape != numbers.shape or tensor.dtype != numbers.dtype:
                tensor.data = numbers.clone()
            elif not torch.equal(tensor, numbers):
                tensor.data.copy_(numbers)
            tensor.requires_grad_(trained)

    try:
        yield restore
    finally:
        restore()


@contextmanager
def precisely() -> Iterator[None]:
    """Computes in full float32 without cuDNN, and sets the former precision again at the end.

    cuDNN's convolutions take TF32, and its recurrent layers have no backward in evaluation mode.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
