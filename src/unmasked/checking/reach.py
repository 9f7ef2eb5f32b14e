"""Tests which words an output depends on: all of the source, those of the target so far."""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .probe import ROWS, AnswerError, Probe, backward, can_be_said
from .properties import without
from .report import Finding


def places(moved: Tensor) -> list[list[int]]:
    """Returns [output, word] for each True in a tensor [words, outputs], the first output first."""
    return moved.t().nonzero().tolist()


def causality(probe: Probe) -> Finding:
    """Tests whether later target words move an output, also in training, where batch norms leak."""
    mode, moved = "", probe.influences[1]
    later = torch.ones_like(moved).tril(-1).bool()  # [word, output]: the word is later
    leaks = places((moved > probe.scale.same) & later)
    with contextlib.suppress(AnswerError):
        probe.model.train()
        steady = torch.equal(*(probe(probe.source, probe.target) for _ in range(2)))
        if steady and not leaks:
            mode, moved = " in training mode", probe.influence(1)
            leaks = places((moved > probe.scale.same) & later)
    probe.model.eval()
    if leaks:
        output, word = leaks[0]
        what = (
            f"output[{output}] moves by {moved[word, output]:.2g}{mode} when "
            f"{probe.target_word}[{word}] changes"
            f" ({len(leaks)} of {int(later.sum())} pairs of an output and a later word)"
        )
        fix = (
            "look at the causal mask (its diagonal, what True means, every layer), and for a norm, "
            "a softmax or a mean over positions"
        )
        return Finding("causality", "fault", what, fix)
    return Finding("causality", "passed", "no later word moves an output")


def reaches(probe: Probe, name: str, word: str, moved: Tensor, fix: str) -> Finding:
    """Tests whether each source word moves each output, or each target word its own and later."""
    should = torch.ones_like(moved).bool()
    if word == probe.target_word:
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
    """Tests whether each output depends on the target words so far, the newest included.

    It is a note if attention leaves that one out and only the residual passes it on. A source of
    one word is tried too, because cross-attention has no choice there.
    """
    fix = "look for a mask that hides too much, or a target that is shifted twice"
    finding = reaches(probe, "own words", probe.target_word, probe.influences[1], fix)
    with contextlib.suppress(AnswerError):
        if finding.verdict == "passed":
            fix = "with a source of one word: has the cross-attention its residual?"
            finding = reaches(probe, "own words", probe.target_word, probe.influence(1, 1), fix)
    if finding.verdict == "passed" and (missed := unread(probe, 1, own_row_only)):
        module, (output, _) = missed
        what = f"output[{output}] reads earlier words in what {module} returns, not its own"
        fix = "a causal mask without its diagonal? The word comes by the residual alone"
        return Finding("own words", "note", what, fix)
    return finding


def own_row_only(read: Tensor) -> Tensor:
    """Marks, on the diagonal, outputs that read other rows but not their own: [T, T] → [T, T]."""
    unread = read.any(0) & ~read & torch.eye(len(read)).bool()
    return unread.index_fill(1, torch.tensor(0), value=False)  # the first may have no choice


def source(probe: Probe) -> Finding:
    """Tests whether each output depends on every source word, and reads every row of the memory.

    The second test is needed because one row of the memory may depend on all words.
    """
    fix = "is there cross-attention, and are its keys and values the memory?"
    finding = reaches(probe, "source", "source", probe.influences[0], fix)
    if finding.verdict == "passed" and (missed := unread(probe, 0, read_by_others_only)):
        module, (output, word) = missed
        what = f"output[{output}] does not read row {word} of what {module} returns, others do"
        return Finding("source", "fault", what, "is the causal mask used in cross-attention?")
    return finding


def read_by_others_only(read: Tensor) -> Tensor:
    """Marks rows that this output does not read, but others do, if it reads any: twice [S, T]."""
    return read.any(0) & read.any(1, keepdim=True) & ~read


def unread(
    probe: Probe, side: int, left_out: Callable[[Tensor], Tensor]
) -> tuple[str, list[int]] | None:
    """Returns the first module's path and [output, row] that `left_out` marks, or None.

    A sharp softmax leaves rows out, too; so a dozen weights are tried, and all must agree.
    """
    read: dict[str, Tensor] = {}
    for _ in probe.weights():
        again = rows_read(probe, side)
        read = {name: rows | again.get(name, rows) for name, rows in (read or again).items()}
        missed = ((name, at) for name, rows in read.items() for at in places(left_out(rows)))
        if not (first := next(missed, None)):
            return None
    return first


Kept = list[tuple[str, Tensor]]


def rows_read(probe: Probe, side: int) -> dict[str, Tensor]:
    """Returns which rows of each module's output each logit depends on: {path: [words, outputs]}.

    The modules nearest to the logits come first. A row counts if its gradient is not zero in any
    sentence, in any call of the module. Half precision may lose one, so there the dict is empty.
    """
    length, outputs = (probe.source, probe.target)[side].shape[1], probe.target.shape[1]
    kept: Kept = []
    modules = probe.model.named_modules()
    hooks = [(module, partial(keep, kept, name, length)) for name, module in modules]
    try:
        logits = probe.watched(probe.target, hooks)
    except AnswerError:  # "repeats" tells of it
        return {}
    if not kept or not probe.scale.fine:
        return {}
    said = can_be_said(probe.base).to(logits.device)
    weights = torch.randn(int(said.sum()), generator=probe.draws).to(logits)
    sums = (logits[..., said] @ weights).sum(0)  # [T]
    read = {name: torch.zeros(length, outputs, dtype=torch.bool) for name, _ in reversed(kept)}
    for output in range(outputs):
        try:
            found = backward(sums[output], [vectors for _, vectors in kept])
        except AnswerError:  # "gradient" tells of it
            return {}
        for (name, _), gradient in zip(kept, found, strict=True):
            if gradient is not None:
                batch = gradient.shape.index(ROWS)
                read[name][:, output] |= (gradient != 0).any(-1).any(batch).cpu()
    return read


def keep(kept: Kept, name: str, length: int, _: nn.Module, __: Any, returned: Any) -> None:
    """Adds to `kept` the tensor [B, L, D] or [L, B, D] that a module returns, as a forward hook."""
    vectors = returned[0] if isinstance(returned, tuple) and returned else returned
    if isinstance(vectors, Tensor) and vectors.requires_grad and vectors.dim() == 3:
        kept += [(name, vectors)] * (sorted(vectors.shape[:2]) == sorted((ROWS, length)))
