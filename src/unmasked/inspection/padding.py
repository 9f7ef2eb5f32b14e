"""The same sentences, computed in another way: with padding, with neighbours, word by word."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from .distance import apart, can_be_said
from .probe import LENGTHS, ROWS, TARGET, Forward, Probe
from .report import Finding


def moved(a: Tensor, b: Tensor, limit: float, counts: Tensor | None = None) -> str:
    """The earliest output that two answers [B, T, V] give differently, in words; or nothing."""
    gap = apart(a, b)
    gap = gap if counts is None else gap.masked_fill(~counts.cpu(), 0.0)
    wide = (gap > limit).any(0).nonzero()
    if not len(wide):
        return ""
    position, size = int(wide[0]), float(gap[:, wide[0]].max())
    how = f"moves by {size:.2g}" if size < math.inf else "is not finite"
    return f"output[{position}] {how}"


def padded(probe: Probe) -> Finding:
    """Padding behind the source, behind the target, and short sentences beside long ones."""
    longer = F.pad(probe.source, (0, 2), value=probe.padding)
    seen = moved(probe(longer, probe.target), probe.base, probe.scale.close)
    if seen:
        what = f"with two words of padding behind the source, {seen}"
        fix = "mask the source's padding in every layer of the encoder, and in cross-attention"
        return Finding("padding", "fault", what, fix)
    longer = F.pad(probe.target, (0, 3), value=probe.padding)
    seen = moved(probe(probe.source, longer)[:, :TARGET], probe.base, probe.scale.close)
    if seen:
        what = f"with three words of padding behind the target, {seen}"
        fix = "padding is a later word too: look at the causal mask, and at norms and means"
        return Finding("padding", "fault", what, fix)
    for grad in (False, True):
        source, target, _ = probe.ragged
        together = probe(source, target, grad=grad)
        mode = ", with gradients" if grad else ""
        for row in (0, ROWS - 2, ROWS - 1):  # the shortest
            long, wide = LENGTHS[row]
            alone = probe(source[[row], :long], target[[row], :wide], grad=grad)
            seen = moved(alone, together[[row], :wide], probe.scale.close)
            if seen:
                what = f"beside longer sentences than {long} and {wide} words, {seen}{mode}"
                fix = (
                    "sentences mix, or a mask goes to the wrong one or to the wrong side: look at "
                    "each view, softmax, norm and length that has to do with the batch"
                )
                return Finding("padding", "fault", what, fix)
        if not together[..., can_be_said(probe.base)].isfinite().all():
            what = f"outputs at the target's own padding are not finite{mode}"
            fix = "the loss may leave them out: backward multiplies them by 0, and 0 · NaN is NaN"
            return Finding("padding", "fault", what, fix)
    return Finding("padding", "passed", "no output moves by more than rounding")


def cached(probe: Probe, step: Forward) -> Finding:
    """Two batches: what is remembered of the first must not show in the second."""
    source, target, real = probe.ragged
    everywhere = torch.ones_like(real)
    for question, counts in (((probe.source, probe.target), everywhere), ((source, target), real)):
        expected, got = probe(*question), probe(*question, step)
        said = can_be_said(got) & can_be_said(expected)
        seen = moved(got[..., said], expected[..., said], probe.scale.close, counts)
        if seen:
            what = f"computed word by word, {seen}"
            fix = (
                "does each step stand at its own position, does the cache of every layer grow, and "
                "is the memory that of this sentence?"
            )
            return Finding("cached", "fault", what, fix)
    return Finding("cached", "passed", f"{TARGET} steps give the outputs of one call")
