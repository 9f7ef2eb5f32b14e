"""Compares a model with a reference of equal weights: logits, gradients, and where they part."""

from collections import Counter
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .probe import AnswerError, Probe, apart, can_be_said
from .properties import gradients
from .report import Finding, listed

Seen = list[tuple[str, Tensor]]


def alike(probe: Probe, reference: nn.Module, forward: Any) -> Finding:
    """Tests whether both give the same logits, and weights with equal numbers the same gradients.

    A fault names the reference's first module whose output nothing in the model equals.
    """
    model, asked, mine = probe.model, probe.forward, watched(probe)
    said = can_be_said(probe.base)
    logits, grads = probe.base[..., said], by_numbers(probe)
    probe.model = reference.to(probe.device)
    if forward is not None:
        probe.forward = probe.called(forward)
    try:
        theirs, answer = watched(probe), probe(probe.source, probe.target)[..., said]
        expected = by_numbers(probe)
    finally:
        probe.model, probe.forward = model, asked
    gap = apart(logits, answer).max()
    if gap > probe.scale.close:
        same = [any(equal(output, own) for _, own in mine) for _, output in theirs]
        parts = max((i + 1 for i, each in enumerate(same) if each), default=0)
        before = theirs[parts - 1][0] if parts else "the embedding"
        first = theirs[parts][0] if parts < len(same) else ""
        where = f"they agree up to the reference's {before}, and part in its {first}"
        what = f"the logits differ by up to {float(gap):.2g}" + (f"; {where}" if first else "")
        return Finding("like", "fault", what, "compare the two at that module, input by input")
    pairs = [(name, g, expected[key][1]) for key, (name, g) in grads.items() if key in expected]
    size = max((float(g.abs().max()) for _, g, _ in pairs), default=0.0)
    parted = [name for name, g, other in pairs if not torch.allclose(other, g, 1e-3, 1e-4 * size)]
    if parted:
        what = f"the logits agree, the gradients of {listed(parted)} do not"
        return Finding(
            "like", "fault", what, "look for .detach(), a layer that is shared, or rounding"
        )
    count = f"the gradients of {len(pairs)} weights with equal numbers"
    return Finding("like", "passed", f"the same logits, and {count}")


def watched(probe: Probe) -> Seen:
    """Returns the paths of the model's modules, in the order of calls, and what they return."""
    seen: Seen = []

    def keep(name: str, _: nn.Module, __: Any, returned: Any) -> None:
        output = returned[0] if isinstance(returned, tuple) and returned else returned
        if isinstance(output, Tensor) and output.dim() == 3:
            seen.append((name, output.detach()))

    modules = [
        (module, partial(keep, name)) for name, module in probe.model.named_modules() if name
    ]
    probe.watched(probe.target, modules)
    return seen


def equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, 1e-3, 1e-4 * float(a.abs().max()))


def by_numbers(probe: Probe) -> dict[Any, tuple[str, Tensor]]:
    """Returns name and gradient of each trained weight, by its numbers, if no other has them."""
    named = dict(probe.model.named_parameters())
    probe.draws = torch.Generator().manual_seed(probe.seed)  # the same labels for both
    try:
        found = gradients(probe)
    except AnswerError:  # "gradient" tells of it
        return {}
    keys = {name: named[name].detach().cpu().float().numpy().tobytes() for name in found}
    held = Counter(keys.values())
    return {
        (named[name].shape, keys[name]): (name, gradient.float())
        for name, gradient in found.items()
        if gradient is not None and held[keys[name]] == 1
    }
