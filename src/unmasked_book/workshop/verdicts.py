"""Is a piece right, and if not, which mistake is it? `examine` asks; what it says stands here.

A piece is run beside plain.py's with the same random weights. Where the numbers differ, they are
compared with those of every known mistake, then of every two; a mistake is named only where they
agree. What nobody knows is located by what each part receives, and by the smallest case.
"""

import contextlib
import dis
import inspect
import io
import linecache
import time
import traceback
import warnings
from collections import Counter
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import torch
from torch import Tensor, nn

from unmasked import plain
from unmasked_book.workshop.cases import Case, probes, small, weights
from unmasked_book.workshop.limits import EndlessError, within
from unmasked_book.workshop.mistakes import Mistake, known
from unmasked_book.workshop.reference import piece

NEAR = 1e-4  # right ways differ by 3e-7 of the largest number, wrong ones by 1e-2
SECONDS = 10.0
PAIRS = 2.0  # seconds for two mistakes at once
REPORT = "https://github.com/transformer-unmasked/unmasked/issues/new?title="


class Verdict(NamedTuple):
    step: str
    right: bool
    message: str
    mistakes: tuple[str, ...] = ()
    waiting: bool = False  # there is no answer yet


class NotYetError(Exception):
    """In words, what keeps a piece from being compared."""


def examine(step: str, answer: Any) -> Verdict:
    """Compares a reader's function or class with plain.py's."""
    noise = io.StringIO()
    with (
        torch.random.fork_rng(devices=()),
        torch.enable_grad(),
        contextlib.redirect_stdout(noise),
        warnings.catch_warnings(action="ignore"),
    ):
        try:
            with within(SECONDS):
                found = judged(step, answer)
        except EndlessError as error:
            said = f"it was stopped after {error}{place(error)}"
            found = Verdict(step, False, f"✗ {step}: {said}. Is there a loop that never ends?")
    printed = noise.getvalue().splitlines()
    if printed and not found.right:
        shown = "\n".join(f"    {line}" for line in printed[:8])
        found = found._replace(message=f"{found.message}\n  It printed, first:\n{shown}")
    return found


def judged(step: str, answer: Any) -> Verdict:
    if answer is None or answer is ... or unwritten(answer):
        return Verdict(step, False, f"· {step}: your turn.", waiting=True)
    try:
        require_kind(step, answer)
        outcomes = [outcome(step, answer, case) for case in probes(step)]
        pairs = zip(probes(step), outcomes, strict=True)
        wrong = next((pair for pair in pairs if differs(step, *pair)), None)
        found = recognised(step, outcomes) if wrong else []
        wrong = wrong or failing(step, answer)
        if wrong is None:
            if said := careless(step, answer):
                return Verdict(step, False, f"✗ {step}: the numbers are right, but {said}")
            return Verdict(step, True, f"✓ {step}")
        if found:
            every = tuple(dict.fromkeys(each.words for pair in found for each in pair))
            ways = "; or of ".join(" with ".join(each.words for each in pair) for pair in found)
            said = f"your numbers are those of {ways}."
            said += " They cannot be told apart." * (len(found) > 1)
            return Verdict(step, False, f"✗ {step}: {said}", every)
        return Verdict(step, False, f"✗ {step}: {unknown(step, answer, *wrong)}")
    except NotYetError as error:
        return Verdict(step, False, f"✗ {step}: {error}")


# --- Is there an answer? ------------------------------------------------------------------------


def unwritten(answer: Any) -> bool:
    """Whether a function, or a class's forward, computes nothing at all."""
    if isinstance(answer, type) and issubclass(answer, nn.Module):
        inherited = {answer.__init__: nn.Module.__init__, answer.forward: nn.Module.forward}
        return any(method is old or unwritten(method) for method, old in inherited.items())
    code = getattr(inspect.unwrap(answer) if callable(answer) else None, "__code__", None)
    if code is None or set(code.co_names) - {"super", "__init__", "n_heads"}:
        return False
    does = ("LOAD_FAST", "LOAD_DEREF", "JUMP_BACKWARD")
    begun = "super" in code.co_names  # `super().__init__()`, and nothing else
    return begun or not any(each.opname.startswith(does) for each in dis.get_instructions(code))


def require_kind(step: str, answer: Any) -> None:
    """Whether it is the function or the class that was asked for."""
    asked = getattr(plain, step)
    if isinstance(asked, type):
        if isinstance(answer, nn.Module):
            raise NotYetError("this is a module; the class itself is asked for, without sizes.")
        if not (isinstance(answer, type) and issubclass(answer, nn.Module)):
            raise NotYetError(f"a class of nn.Module is asked for, and this is {kind(answer)}.")
    elif not callable(answer) or isinstance(answer, nn.Module):
        raise NotYetError(
            f"a function is asked for, and this is {kind(answer)}. Was the name used again, as in "
            f"{step} = {step}(...)? Run the cell of the function once more."
        )


def kind(thing: Any) -> str:
    name = thing.__name__ if isinstance(thing, type) else type(thing).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


# --- Running it ---------------------------------------------------------------------------------


def outcome(step: str, made: Any, case: Case) -> Tensor | Exception:
    """What it computes, or how it stops."""
    try:
        result = runner(step, made, case)(*copies(case.inputs))
    except NotYetError:
        raise
    except Exception as error:  # the reader's
        return error
    if result is None:
        return NotYetError("it returns nothing (None): is a `return` missing?")
    if not isinstance(result, Tensor):
        return NotYetError(f"it returns {kind(result)}, and a tensor is asked for.")
    return tidy(step, result.detach(), case)


def runner(step: str, made: Any, case: Case) -> Any:
    """The function itself, or a module with the case's sizes and weights."""
    if not case.sizes:
        return made
    module = made(*case.sizes)
    takes(module, weights(step, case.sizes))
    return module.train(case.training)


def takes(module: nn.Module, given: dict[str, Tensor]) -> None:
    """Copies weights by their names, or says which names or shapes are others."""
    mine = dict(module.named_parameters(remove_duplicate=False))
    for one, two in combinations(mine, 2):
        if mine[one] is mine[two]:
            what = "[layer] * n repeats one layer" if ".0." in one else "they are tied later"
            raise NotYetError(f"{one} and {two} are one tensor, and two are asked for: {what}.")
    if missing := [name for name in given if name not in mine]:
        yours = ", ".join([name for name in mine if name not in given][:3])
        said = f"it has no parameter {missing[0]}" + f", but {yours}" * bool(yours)
        listed = " Layers belong into an nn.ModuleList." * missing[0].startswith("encoder.")
        raise NotYetError(f"{said}. The names are given, so that trained weights fit.{listed}")
    if more := [name for name in mine if name not in given]:
        raise NotYetError(f"it has a parameter {more[0]} that is not asked for.")
    for name, values in given.items():
        if mine[name].shape != values.shape:
            shapes = f"{list(mine[name].shape)}, not {list(values.shape)}"
            raise NotYetError(f"its {name} has the shape {shapes}.")
        with torch.no_grad():
            mine[name].copy_(values)


def copies(inputs: tuple[Any, ...]) -> list[Any]:
    return [x.clone() if isinstance(x, Tensor) else x for x in inputs]


def tidy(step: str, result: Tensor, case: Case) -> Tensor:
    """Without what may differ: the columns of padding after the last <eos>, outputs at padding."""
    if step == "generate" and result.dim() == 2 and result.shape[1] < case.inputs[2]:
        return nn.functional.pad(result, (0, case.inputs[2] - result.shape[1]))
    real = case.real
    if real is not None and result.shape[:2] == real.shape:
        return result.masked_fill(~real.unflatten(1, (-1, *[1] * (result.dim() - 2))), 0)
    return result


@cache
def expected(step: str, case: Case) -> Tensor:
    result = outcome(step, getattr(plain, step), case)
    assert isinstance(result, Tensor)
    return result


def differs(step: str, case: Case, got: Tensor | Exception) -> bool:
    return not alike(got, expected(step, case))


def alike(a: Tensor | Exception, b: Tensor | Exception) -> bool:
    """Of one shape and kind, and equal but for rounding."""
    if isinstance(a, Exception) or isinstance(b, Exception):
        return isinstance(a, Exception) and isinstance(b, Exception)
    if a.shape != b.shape or family(a) != family(b):
        return False
    return distance(a, b) < NEAR


def distance(a: Tensor, b: Tensor) -> float:
    """The largest difference beside the largest number; infinite where only one is not finite."""
    a, b = a.double(), b.double()
    finite = a.isfinite() & b.isfinite()
    if not torch.equal(a[~finite].nan_to_num(7.0), b[~finite].nan_to_num(7.0)):
        return float("inf")
    a, b = a[finite], b[finite]
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-9)) if a.numel() else 0.0


def family(x: Tensor) -> str:
    return "bool" if x.dtype == torch.bool else "floats" if x.is_floating_point() else "ints"


def failing(step: str, answer: Any) -> tuple[Case, Tensor | Exception] | None:
    """The smallest case in which it is wrong, and what comes out."""
    tried = ((case, outcome(step, answer, case)) for case in small(step))
    return next((pair for pair in tried if differs(step, *pair)), None)


# --- Which mistake? -----------------------------------------------------------------------------


@cache
def computed(step: str, changes: Any, number: int) -> Tensor | Exception:
    return outcome(step, piece(step, changes), probes(step)[number])


def recognised(step: str, outcomes: list[Tensor | Exception]) -> list[tuple[Mistake, ...]]:
    """The known mistakes, or else pairs of them, that compute the same in every large case."""
    if all(isinstance(each, Exception) for each in outcomes):
        return []
    single = {each.words: each for each in known(step) if fits(step, each.changes, outcomes)}
    if single:
        return [(each,) for each in single.values()]
    end = time.monotonic() + PAIRS
    found: list[tuple[Mistake, ...]] = []
    for one, two in combinations(known(step), 2):
        if time.monotonic() > end or len(found) == 2:
            break
        with contextlib.suppress(ValueError, SyntaxError):  # they change the same words
            if fits(step, one.changes + two.changes, outcomes):
                found.append((one, two))
    return found


def fits(step: str, changes: Any, outcomes: list[Tensor | Exception]) -> bool:
    return all(alike(got, computed(step, changes, number)) for number, got in enumerate(outcomes))


# --- What else is said --------------------------------------------------------------------------


def unknown(step: str, answer: Any, case: Case, got: Tensor | Exception) -> str:
    """How it stops, or what its form is, or the smallest case and where it goes astray."""
    smallest = failing(step, answer)
    if isinstance(got, NotYetError):
        return str(got)
    if smallest and isinstance(smallest[1], Exception) == isinstance(got, Exception):
        case, got = smallest
    if isinstance(got, Exception):
        said = f"it stops with {type(got).__name__}: {first_line(got)}{place(got)}"
        return f"{said}.\n  That was with {case.words}."
    right = expected(step, case)
    if family(got) != family(right):
        return f"the result is of {got.dtype}, and {right.dtype} is asked for."
    if got.shape != right.shape:
        shapes = f"{list(got.shape)}, not {list(right.shape)}"
        return f"the result has the shape {shapes}, with {case.words}."
    if any(not alike(outcome(step, answer, case), got) for _ in range(3)):
        said = f"two calls with {case.words} give different numbers. Is there dropout"
        return f"{said} that does not stop in evaluation (self.training)?"
    lines = [f"none of the {len(known(step))} mistakes that we know, nor two of them."]
    lines += [f"  Smallest case: {case.words}{', in training' * case.training}."]
    lines += [*short(case), f"  {difference(got, right)}"]
    if case.sizes:
        lines += [f"  {located(step, answer, case)}"]
    lines[-1] += f"\n{REPORT}{quote('workshop: ' + step)}"
    return "\n".join(lines)


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0].rstrip(".")


def place(error: BaseException) -> str:
    """The line of the reader's own file, or cell, where it stopped."""
    ours = (str(Path(torch.__file__).parent), str(Path(__file__).parent))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        name = frame.filename
        if not name.startswith((*ours, "<frozen")) and "/lib/python" not in name:
            line = linecache.getline(name, frame.lineno or 0).strip()
            cell = "ipykernel" in name or "<ipython" in name
            where = "your cell" if cell else Path(name).name
            return f", in line {frame.lineno} of {where}" + (f": `{line}`" if line else "")
    return ""


def short(case: Case) -> list[str]:
    """The inputs that are small enough to be read."""
    found = []
    for name, value in zip(case.names.split(), case.inputs, strict=True):
        if isinstance(value, Tensor) and value.numel() <= 12:
            read = value.double().round(decimals=2) if value.is_floating_point() else value
            found.append(f"    {name} = {read.tolist()}")
    return found


def difference(got: Tensor, right: Tensor) -> str:
    """The first place at which they differ."""
    a, b = got.double(), right.double()
    near = NEAR * b[b.isfinite()].abs().max().clamp(min=1e-9) if b.isfinite().any() else NEAR
    wrong = ~torch.isclose(a, b, rtol=0.0, atol=float(near), equal_nan=True)
    at = wrong.nonzero()[0].tolist()
    both = [x[tuple(at)].item() for x in (right, got)]
    ours, yours = (f"{x:.4g}" if isinstance(x, float) else f"{x}" for x in both)
    return f"{f'At {at} it' if at else 'It'} should be {ours} and is {yours}."


def located(step: str, answer: Any, case: Case) -> str:
    """The first part, by its name and in the order of calls, that receives something else."""
    theirs, ours = (heard(step, made, case) for made in (answer, getattr(plain, step)))
    for (name, before), right in ours.items():
        if (name, before) not in theirs:
            return f"{name} is called {before} times, and more often is right."
        for place, pair in enumerate(zip(theirs[name, before], right, strict=False), start=1):
            if not alike(*pair):
                return f"{name} is the first part to receive something else: input {place}."
    return "Every part receives what it should: look at what is done with the last one's result."


def heard(step: str, made: Any, case: Case) -> dict[tuple[str, int], list[Tensor]]:
    """The inputs of a named part each time that it is called, counted from 0."""
    calls: dict[tuple[str, int], list[Tensor]] = {}
    module, times = runner(step, made, case), Counter[str]()

    def hear(name: str, _: nn.Module, given: Any) -> None:
        calls[name, times[name]] = [x.detach().clone() for x in given if isinstance(x, Tensor)]
        times[name] += 1

    for name, part in module.named_modules():
        if name:
            part.register_forward_pre_hook(partial(hear, name))
    with contextlib.suppress(Exception):
        module(*copies(case.inputs))
    return calls


# --- Right numbers are not all ------------------------------------------------------------------


def careless(step: str, answer: Any) -> str:
    """Inputs that are written into, embeddings drawn too large, gradients that do not arrive."""
    case = probes(step)[0]
    run, given = runner(step, answer, case), copies(case.inputs)
    run(*given)
    for name, before, after in zip(case.names.split(), case.inputs, given, strict=True):
        if isinstance(before, Tensor) and not torch.equal(before, after):
            return f"it writes into {name}, which belongs to the caller."
    if step in ("padding_mask", "causal_mask", "positions", "generate"):
        return ""
    if step == "Transformer":
        torch.manual_seed(0)
        spread = float(answer(50, 50, 64, 2, 1, 8).source_embedding.weight.detach().std())
        if not 0.5 < spread * 8 < 2:
            return f"embeddings begin with a standard deviation of {spread:.3f}, not 1/√D."
    if step in ("EncoderLayer", "DecoderLayer") and unscaled(step, answer, case):
        return "in training, what dropout keeps is not scaled up by 1 / (1 - p)."
    pairs = dict(zip(case.names.split(), copies(case.inputs), strict=True))
    modules = [x for x in (*pairs.values(), run) if isinstance(x, nn.Module)]
    needed: dict[str, Tensor] = dict(modules[0].named_parameters()) if modules else {}
    for name, x in pairs.items():
        if isinstance(x, Tensor) and x.is_floating_point():
            needed[name] = x.requires_grad_()
    try:
        square = run(*pairs.values()).square().sum()
        found = torch.autograd.grad(square, [*needed.values()], allow_unused=True)
    except RuntimeError as error:
        return f"no gradient comes back: {first_line(error)}"
    for name, gradient in zip(needed, found, strict=True):
        if gradient is None or not gradient.any():
            return f"no gradient reaches {name}: is something detached, or under torch.no_grad()?"
    return ""


def unscaled(step: str, answer: Any, case: Case) -> bool:
    """Whether dropout leaves a layer's self-attention smaller, in the mean of many calls."""
    torch.manual_seed(0)
    layer, inputs = runner(step, answer, case), copies(case.inputs)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.startswith(("feed_forward.contract", "cross_attention.output")):
                parameter.zero_()
        added = layer(*inputs) - inputs[0]
        layer.train()
        kept = sum(layer(*inputs) - inputs[0] for _ in range(50)) / 50
    return not 0.8 < float((kept * added).sum() / (added * added).sum()) < 1.2
