"""A model is left as it was found, whatever its forward writes into it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Path = tuple[str, Any]


def inside(value: Any, path: str = "") -> Iterator[Path]:
    """Everything in nested lists, tuples, dicts and sets, each with its path: `.heads[0]`."""
    met: set[int] = set()
    waiting: deque[Path] = deque([(path, value)])
    while waiting:
        path, value = waiting.popleft()
        yield path, value
        if not isinstance(value, dict | list | tuple | set | frozenset) or id(value) in met:
            continue
        met.add(id(value))
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        waiting.extend((f"{path}[{key!r}]", part) for key, part in parts)


def refill(container: Any, contents: Any) -> None:
    """Puts the contents back into a list, dict or set that others may hold too."""
    container.clear()
    (container.extend if isinstance(container, list) else container.update)(contents)


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[Callable[[], None]]:
    """Afterwards, and whenever the given function is called, all is what it was.

    A module keeps its mode, its layers and all else in `vars(module)`, a dict of dicts: they are
    copied, and filled again. Parameters, buffers and other tensors get their numbers back.
    """
    containers: dict[int, tuple[Any, Any]] = {}
    tensors: dict[int, tuple[Tensor, Tensor]] = {}
    for module in model.modules():
        for _, value in inside(vars(module)):
            if isinstance(value, list | dict | set):
                containers[id(value)] = value, value.copy()
            elif isinstance(value, Tensor):
                tensors[id(value)] = value, value.detach().clone()

    def restore() -> None:
        for container, contents in containers.values():
            refill(container, contents)
        with torch.no_grad():
            for tensor, numbers in tensors.values():
                if not torch.equal(tensor, numbers):
                    tensor.copy_(numbers)

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
