"""Whether a model answers at all, and always the same."""

from __future__ import annotations

import contextlib

import torch
from torch import nn

from .distance import apart, can_be_said
from .probe import Probe, RefusedError
from .report import Finding, listed


def runs(probe: Probe) -> Finding:
    """Finite numbers; a word that is forbidden everywhere may have minus infinity."""
    said = can_be_said(probe.base)
    broken = ~probe.base.isfinite() & (said | ~said.any())
    if broken.any():
        row, position, _ = broken.nonzero()[0].tolist()
        what = f"output[{position}] of sentence {row} is not finite"
        fix = "the softmax of a row that is masked everywhere is NaN: which row hides all its keys?"
        return Finding("runs", "fault", what, fix)
    numbers = probe.base[..., said]
    off = (numbers.sum(-1) - 1).abs().max()
    if bool((numbers >= 0).all()) and float(off) < 0.05:
        what = "each output adds up to one: these are probabilities, and not their logarithms"
        fix = "cross_entropy takes the softmax itself: give it logits"
        return Finding("runs", "note", what, fix)
    return Finding("runs", "passed", f"finite numbers, with a spread of {probe.scale.spread:.2g}")


def repeats(probe: Probe) -> Finding:
    """Again, after other sentences, with other random numbers, and with gradients."""
    base = probe.base
    with contextlib.suppress(RefusedError):
        probe(*probe.ragged[:2])
    with torch.no_grad():
        again = probe.answer(probe.source, probe.target).cpu().double()
    gap = float(apart(again, base).max())
    if gap > probe.scale.same:
        if torch.equal(*(probe(probe.source, probe.target) for _ in range(2))):
            probe.unsure = "padding", "cached"  # another shape, other random numbers
        else:
            probe.unsure = "causality", "own words", "source", "order", "padding", "cached"
        what = f"in evaluation mode, a second call gives outputs that differ by {gap:.2g}"
        fix = (
            "dropout that stays on (F.dropout without training=self.training, a module in a plain "
            "list), or a forward that writes into a tensor which the next call reads"
        )
        return Finding("repeats", "fault", what, fix)
    if probe.wrote:
        what, fix = "forward writes into the tokens that it is given", "let it work on a copy"
        return Finding("repeats", "fault", what, fix)
    gap = float(apart(probe(probe.source, probe.target, grad=True), base).max())
    if gap > probe.scale.close:
        what = f"with gradients the outputs differ by {gap:.2g} from those under torch.no_grad()"
        fix = "look for what asks whether gradients are wanted, such as a fused path of torch.nn"
        return Finding("repeats", "fault", what, fix)
    return Finding("repeats", "passed", "the same outputs again, and the same with gradients")


def asleep(model: nn.Module) -> list[str]:
    """Weights that are all zero, as some models begin, and that may hide what is behind them."""
    return [
        name
        for name, weight in model.named_parameters()
        if (weight.dim() > 1 or weight.numel() == 1) and not weight.any()
    ]


def without(probe: Probe, name: str, what: str, fix: str) -> Finding:
    """Something that should have an effect has none: a fault, unless weights of zero explain it."""
    zeros = asleep(probe.model)
    if zeros:
        fix = f"{listed(zeros)}: all zeros, which may be why; check again after some training"
    return Finding(name, "note" if zeros else "fault", what, fix)
