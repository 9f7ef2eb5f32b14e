"""Joins the processes that torchrun has started, through PyTorch's distributed package."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed

from ..errors import invalid
from ..machine import device as best_device


@dataclass(frozen=True)
class Processes:
    rank: int  # the number of this process
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Returns True in the process of rank 0, which alone writes files and prints."""
        return self.rank == 0

    def total(self, value: Tensor) -> Tensor:
        """Sums a tensor over all processes, in place, and returns it."""
        if self.count > 1:
            distributed.all_reduce(value)
        return value


@contextmanager
def processes(device: torch.device | str | None = None) -> Iterator[Processes]:
    """Yields rank, count and device of this process, after joining those that torchrun has started.

    Without torchrun there is one. Of several, each has a GPU and NCCL, or else the CPU and gloo.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    chosen = torch.device(device) if device is not None else best_device()
    if count == 1:
        yield Processes(0, 1, chosen)
        return
    backend, mine = "gloo", not distributed.is_initialized()
    if chosen.type == "cuda":
        number, gpus = os.environ.get("LOCAL_RANK", ""), torch.cuda.device_count()
        if not number.isdigit() or int(number) >= gpus:
            fix = "start as many processes as there are GPUs, or choose the CPU"
            raise invalid("LOCAL_RANK", f"a number below {gpus}, set by torchrun", number, fix)
        backend, chosen = "nccl", torch.device("cuda", int(number))
        torch.cuda.set_device(chosen)
    else:
        chosen = torch.device("cpu")
    if mine:
        distributed.init_process_group(backend)
    try:
        yield Processes(distributed.get_rank(), count, chosen)
    finally:
        if mine:
            distributed.destroy_process_group()
