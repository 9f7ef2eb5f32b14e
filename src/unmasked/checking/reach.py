"""Which words each output must depend on, and which it must not know."""

import contextlib
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .probe import ROWS, SOURCE, TARGET, AnswerError, Probe, backward, can_be_said
from .properties import without
from .report import Finding


def places(moved: Tensor) -> list[list[int]]:
    """The places of what is True in [words, outputs], as [output, word], the earliest first."""
    return moved.t().nonzero().tolist()


def causality(probe: Probe) -> Finding:
    """In evaluation mode, and in training mode: a norm over the batch leaks only there."""
    mode, moved = "", probe.influences[1]
    later = torch.ones_like(moved).tril(-1).bool()  # [word, output]: the word is later
    leaks = places((moved > probe.scale.same) & later)
    with contextlib.suppress(AnswerError):
        probe.model.train()
        steady = torch.equal(*(probe(probe.source, probe.target) for _ in range(2)))
        if steady and not leaks:
            mode, moved = " in training mode", probe.influence(1)
            leaks = places((moved > probe.scale.same) & later)
    if leaks:
        output, word = leaks[0]
        what = (
            f"output[{output}] moves by {moved[word, output]:.2g}{mode} when target[{word}] changes"
            f" ({len(leaks)} of {int(later.sum())} pairs of an output and a later word)"
        )
        fix = (
            "look at the causal mask (its diagonal, what True means, every layer), and for a norm, "
            "a softmax or a mean over positions"
        )
        return Finding("causality", "fault", what, fix)
    return Finding("causality", "passed", "no later word moves an output")


def reaches(probe: Probe, name: str, word: str, moved: Tensor, fix: str) -> Finding:
    """Whether each word moves each output that it should; of the target, those from it on."""
    should = torch.ones_like(moved).bool()
    if word == "target":
        should = should.triu()
    silent, hardly = (places((moved <= limit) & should) for limit in (0.0, probe.scale.hardly))
    if not hardly:
        what = f"each {word} word moves each of its outputs by {float(moved[should].min()):.2g}"
        return Finding(name, "passed", f"{what} or more")
    output, place = (silent or hardly)[0]
    count = f"({len(silent or hardly)} of {int(should.sum())} such pairs)"
    if silent:
        what = f"output[{output}] stays the same when {word}[{place}] changes {count}"
        return without(probe, name, what, fix)
    what = f"{word}[{place}] moves output[{output}] by no more than rounding {count}"
    fix = "a deep post-norm model forgets, until it is trained; check again then"
    return Finding(name, "note", what, fix)


def own_words(probe: Probe) -> Finding:
    """The residual passes a word on even where attention leaves it out: that is a note.

    A source of one word leaves cross-attention no choice: what it says is always the same.
    """
    fix = "look for a mask that hides too much, or a target that is shifted twice"
    finding = reaches(probe, "own words", "target", probe.influences[1], fix)
    with contextlib.suppress(AnswerError):
        if finding.verdict == "passed":
            fix = "with a source of one word: has the cross-attention its residual?"
            finding = reaches(probe, "own words", "target", probe.influence(1, 1), fix)
    for module, read in rows_read(probe, 1) if finding.verdict == "passed" else []:
        for output in range(1, len(read)):  # the first output may have no choice
            if read[:, output].any() and not read[output, output]:
                what = f"output[{output}] reads earlier words in what {module} returns, not its own"
                fix = "a causal mask without its diagonal? The word comes by the residual alone"
                return Finding("own words", "note", what, fix)
    return finding


def source(probe: Probe) -> Finding:
    """Every word, and every row of the memory: one row of it alone may know all words."""
    fix = "is there cross-attention, and are its keys and values the memory?"
    finding = reaches(probe, "source", "source", probe.influences[0], fix)
    for module, read in rows_read(probe, 0) if finding.verdict == "passed" else []:
        partly = read.any(0) & read.any(1, keepdim=True) & ~read
        if partly.any():
            output, word = places(partly)[0]
            what = f"output[{output}] does not read row {word} of what {module} returns, others do"
            return Finding("source", "fault", what, "is the causal mask used in cross-attention?")
    return finding


Kept = list[tuple[str, Tensor]]


def rows_read(probe: Probe, side: int) -> Kept:
    """Of each module that returns a vector a word: its name, and what is read, [words, outputs].

    The modules nearest to the output come first. A row is read if a gradient comes to it in any
    sentence, and from any call of the module. From half precision, which may lose one: nothing.
    """
    length = (SOURCE, TARGET)[side]
    kept: Kept = []
    modules = probe.model.named_modules()
    hooks = [(module, partial(keep, kept, name, length)) for name, module in modules]
    try:
        logits = probe.watched(probe.target, hooks)
    except AnswerError:  # "repeats" tells of it
        return []
    if not kept or not probe.scale.fine:
        return []
    said = can_be_said(probe.base).to(logits.device)
    weights = torch.randn(int(said.sum()), generator=probe.draws).to(logits)
    sums = (logits[..., said] @ weights).sum(0)  # [T]
    read = {name: torch.zeros(length, TARGET, dtype=torch.bool) for name, _ in reversed(kept)}
    for output in range(TARGET):
        try:
            found = backward(sums[output], [vectors for _, vectors in kept])
        except AnswerError:  # "gradient" tells of it
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
