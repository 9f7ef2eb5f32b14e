"""Inside a model: which rows of what its modules return each output depends on."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .distance import can_be_said
from .probe import ROWS, SOURCE, TARGET, Probe, RefusedError, backward

Kept = list[tuple[str, Tensor]]


def rows(probe: Probe, side: int) -> Kept:
    """Of each module that returns a vector a word: its name, and what is read, [words, outputs].

    The modules nearest to the output come first. A row is read if a gradient comes to it in any
    sentence, and from any call of the module. From half precision, which may lose one: nothing.
    """
    length = (SOURCE, TARGET)[side]
    kept: Kept = []
    hooks = [
        module.register_forward_hook(partial(keep, kept, name, length))
        for name, module in probe.model.named_modules()
    ]
    try:
        probe.begin_anew()
        with torch.enable_grad():
            logits = probe.answer(probe.source, probe.target)
    except RefusedError:  # "repeats" tells of it
        return []
    finally:
        for hook in hooks:
            hook.remove()
    if not kept or not probe.scale.fine:
        return []
    said = can_be_said(probe.base).to(logits.device)
    weights = torch.randn(int(said.sum()), generator=probe.draws).to(logits)
    sums = (logits[..., said] @ weights).sum(0)  # [T]
    read = {name: torch.zeros(length, TARGET, dtype=torch.bool) for name, _ in reversed(kept)}
    for output in range(TARGET):
        try:
            found = backward(sums[output], [vectors for _, vectors in kept])
        except RefusedError:  # "gradient" tells of it
            return []
        for (name, _), gradient in zip(kept, found, strict=True):
            if gradient is not None:
                batch = gradient.shape.index(ROWS)
                read[name][:, output] |= (gradient != 0).any(-1).any(batch).cpu()
    return list(read.items())


def keep(kept: Kept, name: str, length: int, _: nn.Module, __: Any, returned: Any) -> None:
    """What a module returns, alone or first of several, if it is [B, L, D] or [L, B, D]."""
    vectors = returned[0] if isinstance(returned, tuple) and returned else returned
    if isinstance(vectors, Tensor) and vectors.requires_grad and vectors.dim() == 3:
        kept += [(name, vectors)] * (sorted(vectors.shape[:2]) == sorted((ROWS, length)))
