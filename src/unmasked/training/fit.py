"""Holds the shortest training loop: one step of Adam for each batch."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import invalid


def fit(
    model: nn.Module,
    loss: Callable[..., Tensor],
    batches: Iterable[tuple[Tensor, ...]],
    *,
    rate: float = 3e-3,
) -> list[float]:
    """Takes one step of Adam for each batch; returns the loss of every step.

    Args:
        model: any module.
        loss: `loss(model, *batch)` returns the scalar that is made smaller.
        batches: tuples of tensors, all listed first, then moved to the model's device one by one.
        rate: the highest learning rate. PyTorch's OneCycleLR reaches it after the first third of
            the steps and then falls to nearly 0; meanwhile it lowers and raises Adam's first beta.
    """
    work: list[Any] = list(batches)
    if not work:
        raise invalid("batches", "at least one batch", "none", "an iterator is empty after one use")
    optimizer = torch.optim.Adam(model.parameters(), rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=len(work) + 1)
    place, losses = next(model.parameters()).device, []
    model.train()
    for batch in work:
        value = loss(model, *(x.to(place) for x in batch))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        schedule.step()
        losses.append(value.item())
    model.eval()
    return losses
