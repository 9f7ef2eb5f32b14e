"""A model is left as it was found, but for arrays and generators of random numbers of its own."""

import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

ATOMS = (str, bytes, int, float, complex, type(None))
KNOWN = (type, ModuleType, FunctionType, Tensor)  # other objects' attributes may change


def held(model: nn.Module) -> Iterator[Any]:
    """All that it keeps, in containers, modules and objects with a `__dict__`, each once."""
    met: set[int] = set()
    waiting: list[Any] = [model]
    while waiting:
        value = waiting.pop()
        if isinstance(value, ATOMS) or id(value) in met:
            continue
        met.add(id(value))
        yield value
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset | deque):
            waiting.extend(value)
        elif hasattr(value, "__dict__") and not isinstance(value, KNOWN):
            waiting.append(vars(value))


def refill(container: Any, contents: Any) -> None:
    """Puts the contents back into a list, dict, set or deque that others may hold too."""
    now, before = (list(x.items()) if isinstance(x, dict) else list(x)
                   for x in (container, contents))  # fmt: skip
    same = len(now) == len(before) and all(
        a is b or (isinstance(container, dict) and a[0] is b[0] and a[1] is b[1])
        for a, b in zip(now, before, strict=True)
    )
    if not same:
        container.clear()
        (container.update if isinstance(container, dict | set) else container.extend)(contents)


def put_back(tensor: Tensor, numbers: Tensor, trained: bool) -> None:
    """Its numbers, its shape and whether it is trained."""
    if tensor.shape != numbers.shape or tensor.dtype != numbers.dtype:
        tensor.data = numbers.clone()
    elif not torch.equal(tensor, numbers):
        tensor.copy_(numbers)
    if tensor.is_leaf and tensor.requires_grad != trained:
        tensor.requires_grad_(trained)


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[Callable[[], None]]:
    """Afterwards, and whenever the given function is called, all is what it was.

    A module keeps its mode, its layers and all else in `vars(module)`, a dict of dicts: they are
    copied, and filled again; so are the attributes of other objects that it holds, but for slots.
    Parameters, buffers and other tensors get their numbers back, and the global generators of
    random numbers their state.
    """
    containers, tensors = [], []
    for value in held(model):
        if isinstance(value, list | dict | set | deque):
            containers.append((value, value.copy()))
        elif isinstance(value, Tensor):
            tensors.append((value, value.detach().clone(), value.requires_grad))
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002

    def restore() -> None:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        for container, contents in containers:
            refill(container, contents)
        with torch.no_grad():
            for tensor, numbers, trained in tensors:
                put_back(tensor, numbers, trained)

    try:
        yield restore
    finally:
        restore()


@contextmanager
def precisely() -> Iterator[None]:
    """Full float32, not TF32 or bfloat16 in its place, and no cuDNN.

    Its convolutions take TF32 too, and its recurrent layers have no backward in evaluation mode.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
