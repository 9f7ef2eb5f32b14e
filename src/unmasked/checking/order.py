"""Tests whether a model's outputs depend on the order of the source and the target words."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .probe import AnswerError, Probe, apart, backward
from .properties import without
from .report import Finding


def exchanged(probe: Probe, side: int) -> list[tuple[float, int]]:
    """Swaps neighbouring words; returns (largest change of later logits, first word's index) each.

    Side 0 is the source. Pairs are left out if replacing either word changes too little to judge.
    """
    moved, sentences = [], [probe.source, probe.target]
    for place in range(sentences[side].shape[1] - 1 - side):
        after = (0, place + 2)[side]  # an output knows all the source, and the target so far
        alone = probe.influences[side][place : place + 2, after:].amax(1).min()
        if alone > probe.scale.clear:
            new = sentences[side].clone()
            new[:, [place, place + 1]] = sentences[side][:, [place + 1, place]]
            question = (new, probe.target) if side == 0 else (probe.source, new)
            moved.append((float(apart(probe(*question), probe.base)[:, after:].max()), place))
    return moved


def order(probe: Probe, sides: Sequence[str] = ("source", "target")) -> Finding:
    """Tests if swapping words changes the logits, and if the decoder has positions at all."""
    fix = "do positions reach the embedding, and another one for each word?"
    unclear = []
    for side, name in enumerate(sides, start=2 - len(sides)):
        moved = exchanged(probe, side)
        # Coarse numbers may hide what one pair does; from fine ones every pair must be seen.
        fine, rounding = probe.scale.fine, probe.scale.swapped
        gap, place = (min if fine else max)(moved, default=(rounding, 0))
        if not moved or (not fine and 0 < gap <= rounding):
            unclear.append(name)
        elif gap <= rounding:
            what = f"no output sees that {name}[{place}] and {name}[{place + 1}] change places"
            return without(probe, "order", what, fix)
    if unclear:
        what = f"the {' and the '.join(unclear)} words move the outputs too little to judge"
        fix = "is a line above the reason? Else check a trained model, or in float32"
        return Finding("order", "note", what, fix)
    if alike(probe):
        what = (
            "one word repeated gives one output repeated, and all that stands before an output "
            "counts alike: the decoder has no positions"
        )
        return without(probe, "order", what, fix)
    return Finding("order", "passed", "every two neighbours move the outputs behind them")


def alike(probe: Probe) -> bool:
    """Returns True if the decoder has no positions at all, neither absolute nor relative ones.

    The causal mask alone lets two layers or more tell an order, so that swapped words do change the
    output. But if the same word stands everywhere, all hidden states of a layer are equal, and
    attention without positions takes the plain mean of a small change in them: row t of the matrix
    U of means is 1/(t+1), t+1 times. Whatever the layers, the gradients R[t, i] of output t by word
    i are then a polynomial p(U). U is triangular, so rows and columns 1 and 2 of p(U) are p of
    [[a, 0], [c, b]], with a = 1/2 and b = c = 1/3, and the corner of that is c (p(a) - p(b)) /
    (a - b): R[2, 1] = 2 (R[1, 1] - R[2, 2]). Rotary or other relative positions weigh near and far
    words differently, and break this.
    """
    target = probe.target[:1, :1].expand_as(probe.target)
    answer = probe(probe.source, target)
    if not probe.scale.fine or apart(answer, answer[:, :1]).max() > probe.scale.close:
        return False
    embedded, logits = embedding_of(probe, target)
    weights = torch.randn(logits.shape[-1], generator=probe.draws).to(logits)
    rows = []  # R[1] and R[2]: [B, words, D]
    for position in (1, 2):
        try:
            found = backward((logits[:, position] @ weights).sum(), embedded)
        except AnswerError:  # "gradient" tells of it
            return False
        rows += [g if len(g) == len(target) else g.transpose(0, 1) for g in found if g is not None]
    if len(rows) != 2:
        return False
    one, two = rows
    uneven = two[:, 1] - 2 * (one[:, 1] - two[:, 2])
    return bool(uneven.abs().max() <= 1e-4 * two.abs().max())


def embedding_of(probe: Probe, target: Tensor) -> tuple[list[Tensor], Tensor]:
    """Returns a list with the embedded target, [B, T, D] or [T, B, D], if found; and its logits."""
    found: list[Tensor] = []

    def watch(_: nn.Module, given: tuple[Any, ...], vectors: Tensor) -> Tensor | None:
        tokens = given[0] if given else None
        if not isinstance(tokens, Tensor) or tokens.numel() != target.numel():
            return None  # some libraries call an embedding with a size
        if (tokens != target[0, 0]).any():
            return None
        found.append(vectors.detach().requires_grad_())
        return found[-1]

    embeddings = [module for module in probe.model.modules() if isinstance(module, nn.Embedding)]
    logits = probe.watched(target, [(embedding, watch) for embedding in embeddings])
    return found[:1], logits
