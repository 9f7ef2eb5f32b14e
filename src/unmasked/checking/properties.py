"""Tests whether logits are finite, repeatable, and free of padding, and every weight trains."""

import contextlib
import math
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional as F

from .probe import ROWS, AnswerError, Forward, Probe, apart, backward, can_be_said
from .report import Finding, listed


def runs(probe: Probe) -> Finding:
    """Tests whether logits are finite; a word may have minus infinity, but at every position."""
    sayable = can_be_said(probe.base)
    broken = ~probe.base.isfinite() & (sayable | ~sayable.any())
    if broken.any():
        row, position, _ = broken.nonzero()[0].tolist()
        what = f"output[{position}] of sentence {row} is not finite"
        fix = "the softmax of a row that is masked everywhere is NaN: which row hides all its keys?"
        return Finding("runs", "fault", what, fix)
    numbers = probe.base[..., sayable]
    off = (numbers.sum(-1) - 1).abs().max()
    if bool((numbers >= 0).all()) and float(off) < 0.05:
        what = "each output adds up to one: these are probabilities, and not their logarithms"
        fix = "cross_entropy takes the softmax itself: give it logits"
        return Finding("runs", "note", what, fix)
    return Finding("runs", "passed", f"finite numbers, with a spread of {probe.scale.spread:.2g}")


def repeats(probe: Probe) -> Finding:
    """Tests whether later calls give equal logits, with other random numbers and with gradients."""
    base = probe.base
    with contextlib.suppress(AnswerError):
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


def without(probe: Probe, name: str, what: str, fix: str) -> Finding:
    """Returns the finding that `what` has no effect: a fault, or a note if weights are zeros.

    Some models begin with weights of zeros, which hide the effect of what comes before them.
    """
    zeros = [
        path
        for path, weight in probe.model.named_parameters()
        if (weight.dim() > 1 or weight.numel() == 1) and not weight.any()
    ]
    if zeros:
        fix = f"{listed(zeros)}: all zeros, which may be why; check again after some training"
    return Finding(name, "note" if zeros else "fault", what, fix)


def require_same(
    probe: Probe,
    answer: Tensor,
    expected: Tensor,
    when: str,
    fix: str,
    counts: Tensor | None = None,
    mode: str = "",
) -> None:
    """Raises AnswerError if two logits [B, T, V] differ, where `counts`, by more than rounding."""
    counts = torch.ones(answer.shape[:2]).bool() if counts is None else counts.cpu()
    gap = apart(answer, expected).masked_fill(~counts, 0.0)
    wide = (gap > probe.scale.close).any(0).nonzero()
    if len(wide):
        position, size = int(wide[0]), float(gap[:, wide[0]].max())
        how = f"moves by {size:.2g}" if size < math.inf else "is not finite"
        how += f"{mode} ({len(wide)} of {int(counts.any(0).sum())} outputs)"
        raise AnswerError(f"{when}, output[{position}] {how}", fix)


def padded(probe: Probe) -> Finding:
    """Tests whether logits stay the same with padding behind, and beside longer sentences."""
    answer = probe(F.pad(probe.source, (0, 2), value=probe.padding), probe.target)
    fix = "mask the source's padding in every layer of the encoder, and in cross-attention"
    require_same(probe, answer, probe.base, "with two words of padding behind the source", fix)
    answer = probe(probe.source, F.pad(probe.target, (0, 3), value=probe.padding))[:, :-3]
    fix = "padding is a later word too: look at the causal mask, and at norms and means"
    require_same(probe, answer, probe.base, "with three words of padding behind the target", fix)
    mixed = (
        "sentences mix, or a mask goes to the wrong one or to the wrong side: look at "
        "each view, softmax, norm and length that has to do with the batch"
    )
    source, target, real = probe.ragged
    for grad in (False, True):
        together = probe(source, target, grad=grad)
        mode = ", with gradients" if grad else ""
        for row in (0, ROWS - 2, ROWS - 1):  # the shortest
            long, wide = probe.lengths[row]
            alone = probe(source[[row], :long], target[[row], :wide], grad=grad)
            when = f"beside longer sentences than {long} and {wide} words"
            require_same(probe, alone, together[[row], :wide], when, mixed, mode=mode)
        if not together[..., can_be_said(probe.base)].isfinite().all():
            what = f"outputs at the target's own padding are not finite{mode}"
            fix = "the loss may leave them out: backward multiplies them by 0, and 0 · NaN is NaN"
            return Finding("padding", "fault", what, fix)
    turned = together = probe(source, target)
    with contextlib.suppress(AnswerError):  # some packed layers want the longest first
        turned = probe(source.flip(0), target.flip(0)).flip(0)
    require_same(probe, turned, together, "with the shortest sentence first", mixed, real)
    return Finding("padding", "passed", "no output moves by more than rounding")


Questions = Iterable[tuple[Tensor, Tensor, Tensor | None]]  # source, target, what counts


def cached(probe: Probe, step: Forward) -> Finding:
    """Tests if `step`, with a cache, gives the logits of one call, for two batches in a row."""
    fix = (
        "does each step stand at its own position, does the cache of every layer grow, and "
        "is the memory that of this sentence?"
    )
    questions = (probe.source, probe.target, None), probe.ragged
    in_steps(probe, step, questions, "computed word by word", fix)
    return Finding("cached", "passed", f"{probe.target.shape[1]} steps give one call's outputs")


def in_steps(probe: Probe, step: Forward, questions: Questions, when: str, fix: str) -> None:
    """Raises AnswerError if `step` gives other logits than one call of the model does."""
    for source, target, counts in questions:
        expected, got = probe(source, target), probe(source, target, step)
        if probe.wrote:
            raise AnswerError("step writes into the tokens that it is given", "let it use a copy")
        said = can_be_said(got) & can_be_said(expected)
        require_same(probe, got[..., said], expected[..., said], when, fix, counts)


def gradients(probe: Probe) -> dict[str, Tensor | None]:
    """Returns each parameter's gradient, by name, of a loss with random labels; sets no `.grad`."""
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
    return {n: g if g is None else g.to_dense() for n, g in zip(named, found, strict=True)}


def gradient(probe: Probe) -> Finding:
    """Tests whether every parameter gets a gradient, with the model's weights or with others.

    If a vector gets nothing but rounding, that is a note. A key's bias does: it moves all scores
    of a query alike, which softmax cancels.
    """
    try:
        found = gradients(probe)
        if not any(gradient is not None for gradient in found.values()):
            probe.model.train()  # some models make no gradients in evaluation mode
            found = gradients(probe)
        for _ in probe.weights():
            idle = {name for name, g in found.items() if g is None or not g.any()}
            if all(is_vector(found[name]) for name in idle):
                break
            again = gradients(probe)
            found |= {name: again[name] for name in idle if again[name] is not None}
    except AnswerError as error:
        if "use_reentrant" not in error.what:
            raise
        return Finding("gradient", "not offered", "checkpoints with use_reentrant=True forbid it")
    if not found:
        return Finding("gradient", "not offered", "no parameter asks for one")
    none = [name for name, g in found.items() if g is None]
    resting = [f"{path}." for path in probe.resting()] if none else []
    none = [name for name in none if not name.startswith(tuple(resting))]
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
    vectors = [name for name, g in found.items() if is_vector(g)]
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
    if resting:
        what = f"never called, so without gradients: {listed(resting)}"
        return Finding("gradient", "note", what, "right if other calls of the model need them")
    return Finding("gradient", "passed", f"one for each of {len(found)} parameters")


def is_vector(g: Tensor | None) -> bool:
    return g is not None and sum(size > 1 for size in g.shape) <= 1


def beside(name: str, sizes: dict[str, float]) -> float:
    """Returns the largest gradient among the parameters of the module that has parameter `name`."""
    module = name.rpartition(".")[0]
    return max(size for other, size in sizes.items() if other.rpartition(".")[0] == module)
