"""Whether all that should learn can learn: gradients, x."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from .distance import can_be_said
from .probe import Probe, RefusedError, backward
from .properties import without
from .report import Finding, listed


def gradients(probe: Probe) -> dict[str, Tensor | None]:
    """Of the cross-entropy of random labels at the real positions; `.grad` is left alone."""
    named = {name: p for name, p in probe.model.named_parameters() if p.requires_grad}
    source, target, real = probe.ragged
    said = can_be_said(probe.base).to(probe.device)
    probe.begin_anew()
    with torch.enable_grad():
        logits = probe.answer(source, target)[real][:, said]
        labels = torch.randint(logits.shape[-1], (len(logits),), generator=probe.draws)
        precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
        loss = F.cross_entropy(precise, labels.to(logits.device), reduction="sum")
    if not named or not loss.requires_grad:
        return dict.fromkeys(named)
    found = backward(loss, list(named.values()))
    return dict(zip(named, found, strict=True))


def gradient(probe: Probe) -> Finding:
    """A vector that is used and gets nothing but rounding is a note, not a fault.

    A key's bias is like that: it moves all scores of a row together, and softmax does not see it.
    """
    try:
        found = gradients(probe)
        if not any(gradient is not None for gradient in found.values()):
            probe.model.train()  # some models make no gradients in evaluation mode
            found = gradients(probe)
    except RefusedError as error:
        if "use_reentrant" not in error.what:
            raise
        return Finding("gradient", "not offered", "checkpoints with use_reentrant=True forbid it")
    if not found:
        return Finding("gradient", "not offered", "no parameter asks for one")
    none = [name for name, g in found.items() if g is None]
    if none:
        what = f"unused, or cut off from the loss: {listed(none)}"
        fix = "look for .detach(), torch.no_grad(), .item(), or a layer that forward does not call"
        return Finding("gradient", "fault", what, fix)
    sizes = {name: float(g.abs().max()) for name, g in found.items() if g is not None}
    broken = [name for name, size in sizes.items() if not math.isfinite(size)]
    if broken:
        what = f"not finite: the gradient of {listed(broken)}"
        fix = (
            "look for NaN or infinity at padded positions: times 0, it is NaN in the backward pass"
        )
        return Finding("gradient", "fault", what, fix)
    vectors = [name for name, g in found.items() if g is not None and is_vector(g)]
    zero = [name for name, size in sizes.items() if size == 0 and name not in vectors]
    if zero:
        what = f"zero everywhere: the gradient of {listed(zero)}"
        fix = "look for a product with 0, a mask or a flat function between it and the loss"
        return without(probe, "gradient", what, fix)
    little = min(100 * probe.eps, 0.01)
    lost = [name for name in vectors if sizes[name] <= little * beside(name, sizes)]
    if lost:
        what = f"nothing but rounding comes to {listed(lost)}"
        fix = "right for a key's bias, which moves all scores of a softmax alike; not for a query's"
        return Finding("gradient", "note", what, fix)
    return Finding("gradient", "passed", f"one for each of {len(found)} parameters")


def is_vector(g: Tensor) -> bool:
    return sum(size > 1 for size in g.shape) <= 1


def beside(name: str, sizes: dict[str, float]) -> float:
    """The largest gradient in the same module."""
    module = name.rpartition(".")[0]
    return max(size for other, size in sizes.items() if other.rpartition(".")[0] == module)
