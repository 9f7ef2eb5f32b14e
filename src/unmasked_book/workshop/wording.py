"""Says in words whether a reader's function or class is right, and if not, which mistake it makes.

A mistake that nobody knows is described by the smallest case that fails, and by the first submodule
whose inputs differ from those in plain.py.
"""

import contextlib
import copy
import inspect
import io
import linecache
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import torch
from torch import Tensor, equal, nn

from unmasked import plain
from unmasked_book.workshop import judging
from unmasked_book.workshop.cases import Case, probes, small
from unmasked_book.workshop.limits import EndlessError, one_thread, within
from unmasked_book.workshop.mistakes import known

SECONDS = 10.0
REPORT = "https://github.com/transformer-unmasked/unmasked/issues/new?title="


UNDERFLOW = (". With scores of 100 it gives 0 / 0, though: what is left of the softmax is too "
             "small. Hide scores before the softmax, not weights after it.")  # fmt: skip


class Verdict(NamedTuple):
    step: str
    right: bool
    message: str
    mistakes: tuple[str, ...] = ()
    waiting: bool = False  # there is no answer yet


def examine(step: str, answer: Any) -> Verdict:
    """Returns a Verdict on a reader's function or class, compared with plain.py's `step`."""
    if judging.unwritten(answer):
        return Verdict(step, False, f"· {step}: your turn.", waiting=True)
    noise = io.StringIO()
    with (
        one_thread(),
        torch.device("cpu"),
        torch.random.fork_rng(devices=()),
        torch.enable_grad(),
        contextlib.redirect_stdout(noise),
        warnings.catch_warnings(action="ignore"),
    ):
        try:
            with within(SECONDS):
                verdict = judged(step, answer)
        except judging.NotYetError as error:
            verdict = refused(step, str(error))
        except EndlessError as error:
            said = f"it was stopped after {error}{place(error)}. Is there a loop that never ends?"
            verdict = refused(step, said)
    if not verdict.right and (printed := noise.getvalue().splitlines()):
        said = "\n    ".join([f"{verdict.message}\n  It printed, first:", *printed[:8]])
        return verdict._replace(message=said)
    return verdict


def refused(step: str, said: str, mistakes: tuple[str, ...] = ()) -> Verdict:
    return Verdict(step, False, f"✗ {step}: {said}", mistakes)


def judged(step: str, answer: Any) -> Verdict:
    """Returns a Verdict on a function or class that may run for ever."""
    judging.require_kind(step, answer)
    tried = [*judging.tried(step, answer, probes(step))]
    wrong = judging.failing(step, tried)
    found = judging.recognised(step, [got for _, got in tried]) if wrong else []
    if found := [several for several in found if judging.everywhere(step, answer, several)]:
        ways = " Or: ".join("; and ".join(each.words for each in several) for several in found)
        many = "two mistakes" if len(found[0]) > 1 else "one mistake"
        said = f"ours gives your numbers with {many}: {ways}."
        said += " They cannot be told apart." * (len(found) > 1)
        names = dict.fromkeys(each.words for several in found for each in several)
        return refused(step, said, tuple(names))
    smallest = judging.failing(step, judging.tried(step, answer, small(step)))
    failed = [pair[0] for pair in tried if judging.failing(step, [pair])]
    remark = ""
    if failed and not smallest and all(judging.underflows(step, answer, case) for case in failed):
        wrong, remark = None, UNDERFLOW
    if wrong := wrong or smallest:
        return refused(step, unknown(step, answer, wrong, smallest))
    if said := careless(step, answer):
        return refused(step, f"the numbers are right, but {said}")
    return Verdict(step, True, f"✓ {step}{remark}")


def unknown(step: str, answer: Any, wrong: judging.Tried, smallest: judging.Tried | None) -> str:
    """Describes a mistake not in the table: an exception, a wrong dtype or shape, wrong numbers."""
    case, got = wrong
    if isinstance(got, judging.NotYetError):
        return str(got)
    if smallest and isinstance(smallest[1], Exception) == isinstance(got, Exception):
        case, got = smallest
    if isinstance(got, Exception):
        said = f"it stops with {type(got).__name__}: {first_line(got)}{place(got)}"
        return f"{said}.\n  That was with {case.words}."
    right = judging.computed(step, (), case)
    if judging.family(got) != judging.family(right):
        return f"the result is of {got.dtype}, and {right.dtype} is asked for."
    if got.shape != right.shape:
        shapes = f"{list(got.shape)}, not {list(right.shape)}"
        return f"the result has the shape {shapes}, with {case.words}."
    if any(not judging.alike(judging.outcome(step, answer, case), got) for _ in range(30)):
        return f"two calls with {case.words} give different numbers. {by_chance(step, case)}"
    lines = [f"none of the {len(known(step))} mistakes that we know, nor two of them."]
    lines += [f"  Smallest case: {case.words}{', in training' * case.training}.", *short(case)]
    if got.is_floating_point() and got.isnan().any() and not right.isnan().any():
        lines += ["  NaN comes from 0 · ∞, ∞ - ∞, 0 / 0, or a softmax of minus infinities alone."]
    lines += [f"  {difference(got, right)}"]
    lines += [f"  {located(step, answer, case)}"] if case.sizes else []
    return "\n".join([*lines, f"{REPORT}{quote('workshop: ' + step)}"])


def by_chance(step: str, case: Case) -> str:
    """Says what may be random in a function or class whose outcome depends on chance."""
    if step in ("generate", "loss"):
        return "Does it draw at random, or keep something between calls?"
    if not case.training:
        return "Is there dropout that does not stop in evaluation (self.training)?"
    if "dropout" in inspect.signature(getattr(plain, step)).parameters:
        return "Is the argument `dropout` ignored? Here it is 1, so that all is dropped."
    return "Is there dropout? Here it belongs into the layers and the embeddings alone."


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0].rstrip(".")


def place(error: BaseException) -> str:
    """Quotes the line of a reader's file or notebook cell that raised the error, or gives ""."""
    ours = (str(Path(torch.__file__).parent), str(Path(__file__).parent))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        name = frame.filename
        if not name.startswith((*ours, "<frozen")) and "/lib/python" not in name:
            line = linecache.getline(name, frame.lineno or 0).strip()
            where = "your cell" if "ipykernel" in name or "<ipython" in name else Path(name).name
            return f", in line {frame.lineno} of {where}" + (f": `{line}`" if line else "")
    return ""


def short(case: Case) -> list[str]:
    """Returns a line such as "x = [1, 2]" for each input tensor that has 12 numbers at most."""
    found = []
    for name, value in case.inputs.items():
        if isinstance(value, Tensor) and value.numel() <= 12:
            read = value.double().round(decimals=2) if value.is_floating_point() else value
            found.append(f"    {name} = {read.tolist()}")
    return found


def difference(got: Tensor, right: Tensor) -> str:
    """Says at which index two tensors of one shape first differ, and what each holds there."""
    at = (~judging.close(got, right)).nonzero()[0].tolist()
    both = [x[tuple(at)].item() for x in (right, got)]
    digits = 4 if f"{both[0]:.4g}" != f"{both[1]:.4g}" else 8
    ours, yours = (f"{x:.{digits}g}" if isinstance(x, float) else f"{x}" for x in both)
    return f"{f'At {at} it' if at else 'It'} should be {ours} and is {yours}."


def located(step: str, answer: Any, case: Case) -> str:
    """Names the first submodule, in the order of calls, whose inputs differ from plain.py's."""
    theirs, ours = (judging.heard(step, made, case) for made in (answer, getattr(plain, step)))
    for (name, before), right in ours.items():
        if (name, before) not in theirs:
            times = f"{before} times, and that is too few" if before else "never called"
            return f"{name} is {times}."
        for number, pair in enumerate(zip(theirs[name, before], right, strict=False), start=1):
            if not judging.alike(*pair):
                return f"{name} is the first part that is given something else: its input {number}."
    return "Every part is given what it should be: look at what becomes of the last one's result."


def started(step: str, answer: Any) -> str:
    """Says if a class begins with odd embeddings, norms or probabilities of dropout."""
    if step not in ("EncoderLayer", "DecoderLayer", "Transformer"):
        return ""
    torch.manual_seed(0)
    sizes = (50, 60, 64, 2, 1, 8, 0.3) if step == "Transformer" else (64, 2, 8, 0.3)
    fresh: nn.Module = answer(*sizes)
    for name, part in fresh.named_modules():
        if (
            isinstance(part, nn.Embedding)
            and not 0.8 < (spread := float(part.weight.std())) * 8 < 1.25
        ):
            return f"{name} begins with a standard deviation of {spread:.3f}, not 1/√D."
        if isinstance(part, nn.LayerNorm) and (part.weight.ne(1).any() or part.bias.any()):
            return f"{name} does not begin with ones and zeros, as nn.LayerNorm does."
        if isinstance(part, nn.Dropout) and part.p != 0.3:
            return f"{name} drops with a probability of {part.p}, where dropout = 0.3 was given."
    return ""


def careless(step: str, answer: Any) -> str:
    """Says if code with right numbers changes its inputs, starts badly or loses gradients."""
    case = probes(step)[0]
    run = judging.runner(step, answer, case)
    for training in (True, False):
        given = copy.deepcopy(case.inputs)
        models = [x.train(training) for x in given.values() if isinstance(x, nn.Module)]
        run(*given.values())
        if any(model.training != training for model in models):
            return "it calls the model's train() or eval(), which belongs to the caller."
    if not torch.is_grad_enabled():
        return "it switches gradients off for the whole program. `with torch.no_grad():` ends."
    for name, before in case.inputs.items():
        if isinstance(before, Tensor) and not equal(before, given[name]):
            return f"it writes into {name}, which belongs to the caller."
    if step in ("padding_mask", "causal_mask", "positions", "generate"):
        return ""
    if said := started(step, answer):
        return said
    if step in ("EncoderLayer", "DecoderLayer") and judging.unscaled(step, answer, case):
        return "in training, what dropout keeps is not scaled up by 1 / (1 - p)."
    if again := judging.mistreated(step, answer):
        said = f"one module that computes several batches goes wrong at {again.words}. "
        return f"{said}Does forward keep a mask, or change its weights?"
    given = copy.deepcopy(case.inputs)
    modules = [x for x in (*given.values(), run) if isinstance(x, nn.Module)]
    needed: dict[str, Tensor] = dict(modules[0].named_parameters()) if modules else {}
    for name, x in given.items():
        if isinstance(x, Tensor) and x.is_floating_point():
            needed[name] = x.requires_grad_()
    try:
        square = run(*given.values()).square().sum()
        gradients = torch.autograd.grad(square, [*needed.values()], allow_unused=True)
    except RuntimeError as error:
        return f"no gradient comes back: {first_line(error)}"
    for name, gradient in zip(needed, gradients, strict=True):
        cancels = name.endswith("key.bias")  # in every softmax
        if not cancels and (gradient is None or not gradient.any()):
            return f"no gradient reaches {name}: is something detached, or under torch.no_grad()?"
    return ""
