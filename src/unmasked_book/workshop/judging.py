"""Compares a reader's function or class with plain.py's, on the same inputs and random weights.

Where the numbers differ, `recognised` looks for a known mistake, or two, that computes the same.
"""

import contextlib
import copy
import dis
import inspect
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, isclose, nn  # bound here, whatever a reader's file does to torch

from unmasked import plain
from unmasked_book.workshop.cases import Case, probes, small, weights
from unmasked_book.workshop.mistakes import Mistake, known
from unmasked_book.workshop.reference import Changes, piece

NEAR = 1e-4  # right ways differ by 3e-7 of the largest number, wrong ones by 1e-2
PAIRS = 2.0  # seconds to look for two mistakes at once
Outcome = Tensor | Exception
Tried = tuple[Case, Outcome]


class NotYetError(Exception):
    """A NotYetError says in words what keeps a reader's function or class from being compared."""


def unwritten(answer: Any) -> bool:
    """Returns True if a reader's function, or a class's __init__ or forward, is an empty stub."""
    if answer is None or answer is ...:
        return True
    if isinstance(answer, type) and issubclass(answer, nn.Module):
        methods = ((answer.__init__, nn.Module.__init__), (answer.forward, nn.Module.forward))
        return any(method is inherited or unwritten(method) for method, inherited in methods)
    code = getattr(inspect.unwrap(answer) if callable(answer) else None, "__code__", None)
    if code is None or set(code.co_names) - {"super", "__init__", "n_heads"}:
        return False
    does = ("LOAD_FAST", "LOAD_DEREF", "JUMP_BACKWARD")
    begun = "super" in code.co_names  # `super().__init__()`, and nothing else
    return begun or not any(each.opname.startswith(does) for each in dis.get_instructions(code))


def require_kind(step: str, answer: Any) -> None:
    """Raises NotYetError unless the answer is a function, or a class, as plain.py's `step` is."""
    if isinstance(getattr(plain, step), type):
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


def outcome(step: str, made: Any, case: Case) -> Outcome:
    """Returns the tensor that a function or class computes from a case's inputs, or its error."""
    try:
        result = runner(step, made, case)(*copy.deepcopy(case.inputs).values())
    except NotYetError:
        raise
    except (SystemExit, GeneratorExit) as error:
        raise NotYetError(f"it stops with {type(error).__name__}, which ends Python.") from None
    except Exception as error:  # the reader's code may raise anything
        return error
    if result is None:
        return NotYetError("it returns nothing (None): is a `return` missing?")
    if not isinstance(result, Tensor):
        return NotYetError(f"it returns {kind(result)}, and a tensor is asked for.")
    return tidy(step, result.detach(), case)


def runner(step: str, made: Any, case: Case) -> Any:
    """Returns a function as it is; of a class, a module with the case's sizes and weights."""
    if not case.sizes:
        return made
    module = made(*case.sizes)
    set_weights(module, weights(step, case.sizes))
    return module.train(case.training)


def set_weights(module: nn.Module, given: dict[str, Tensor]) -> None:
    """Copies weights into a module by name; raises NotYetError if its names or shapes differ."""
    mine = dict(module.named_parameters(remove_duplicate=False))
    for one, two in combinations(mine, 2):
        if mine[one] is mine[two]:
            what = "[layer] * n repeats one layer" if ".0." in one else "each has its own numbers"
            raise NotYetError(f"{one} and {two} are one tensor, and two are asked for: {what}.")
    more = [name for name in module.state_dict() if name not in given]
    if missing := [name for name in given if name not in mine]:
        said = f"it has no parameter {missing[0]}" + f", but {', '.join(more[:3])}" * bool(more)
        listed = " Layers belong into an nn.ModuleList." * missing[0].startswith("encoder.")
        raise NotYetError(f"{said}. The names are given, so that trained weights fit.{listed}")
    if more:
        raise NotYetError(f"it would save {more[0]}, which is not asked for and fits no weights.")
    for name, values in given.items():
        if mine[name].shape != values.shape:
            shapes = f"{list(mine[name].shape)}, not {list(values.shape)}"
            raise NotYetError(f"its {name} has the shape {shapes}.")
        mine[name].data.copy_(values)


def tidy(step: str, result: Tensor, case: Case) -> Tensor:
    """Pads generated tokens to length n; zeroes rows at padding, where right results may differ."""
    if step == "generate" and result.dim() == 2 and result.shape[1] < case.inputs["n"]:
        return nn.functional.pad(result, (0, case.inputs["n"] - result.shape[1]))
    real = case.real
    if real is not None and result.shape[:2] == real.shape:
        return result.masked_fill(~real.unflatten(1, (-1, *[1] * (result.dim() - 2))), 0)
    return result


def heard(step: str, made: Any, case: Case) -> dict[tuple[str, int], list[Tensor]]:
    """Runs a class on a case; returns each submodule's inputs by name and number of its call."""
    calls: dict[tuple[str, int], list[Tensor]] = {}
    module, times = runner(step, made, case), Counter[str]()

    def hear(name: str, _: nn.Module, given: Any) -> None:
        calls[name, times[name]] = [x.detach().clone() for x in given if isinstance(x, Tensor)]
        times[name] += 1

    for name, part in module.named_modules():
        if name:
            part.register_forward_pre_hook(partial(hear, name))
    with contextlib.suppress(Exception):
        module(*copy.deepcopy(case.inputs).values())
    return calls


# --- Are the numbers right, or those of a mistake? ----------------------------------------------


@cache
def computed(step: str, changes: Changes, case: Case) -> Any:
    """Returns the outcome in a case of plain.py's `step`, with these changes of its source text."""
    return outcome(step, piece(step, changes) if changes else getattr(plain, step), case)


def tried(step: str, answer: Any, cases: Iterable[Case]) -> Iterator[Tried]:
    """Yields each case with its outcome."""
    return ((case, outcome(step, answer, case)) for case in cases)


def failing(step: str, tried: Iterable[Tried]) -> Tried | None:
    """Returns the first case with an outcome that differs from plain.py's, and that outcome."""
    return next((pair for pair in tried if not alike(pair[1], computed(step, (), pair[0]))), None)


def alike(a: Outcome, b: Outcome) -> bool:
    """Returns True for two exceptions, or tensors of one shape, like dtypes and close numbers."""
    if isinstance(a, Exception) or isinstance(b, Exception):
        return isinstance(a, Exception) and isinstance(b, Exception)
    return a.shape == b.shape and family(a) == family(b) and bool(close(a, b).all())


def close(got: Tensor, right: Tensor) -> Tensor:
    """Returns a boolean tensor: is the error at most NEAR times the largest right number?"""
    a, b = got.double(), right.double()
    sizes = b[b.isfinite()].abs()
    near = NEAR * max(float(sizes.max()), 1e-9) if len(sizes) else NEAR
    return isclose(a, b, rtol=0.0, atol=near, equal_nan=True)


def family(x: Tensor) -> str:
    return "bool" if x.dtype == torch.bool else "floats" if x.is_floating_point() else "ints"


def unscaled(step: str, answer: Any, case: Case) -> bool:
    """Returns True if a layer's dropout lacks the factor 1 / (1 - p), by the mean of 50 calls."""
    torch.manual_seed(0)
    layer, inputs = runner(step, answer, case), [*copy.deepcopy(case.inputs).values()]
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.startswith(("feed_forward.contract", "cross_attention.output")):
                parameter.zero_()
        added = layer(*inputs) - inputs[0]
        layer.train()
        kept = sum(layer(*inputs) - inputs[0] for _ in range(50)) / 50
    return not 0.8 < float((kept * added).sum() / (added * added).sum()) < 1.2


def underflows(step: str, answer: Any, case: Case) -> bool:
    """Returns True if what a function hides leaves it 0 / 0, but not in float64."""
    got = outcome(step, answer, case)
    if step != "attention" or not isinstance(got, Tensor):
        return False
    seen = replace(case, inputs=case.inputs | {"mask": torch.ones_like(case.inputs["mask"])})
    if failing(step, tried(step, answer, [seen])):
        return False
    given = {name: x.double() if x.is_floating_point() else x
             for name, x in case.inputs.items() if isinstance(x, Tensor)}  # fmt: skip
    finer = replace(case, inputs=case.inputs | given)
    return bool(got.isnan().any()) and not failing(step, tried(step, answer, [finer]))


def mistreated(step: str, answer: Any) -> Case | None:
    """Returns a small case that a module computes wrongly after others, or None."""
    together: dict[tuple[Any, ...], list[Case]] = {}
    for case in small(step):
        together.setdefault(case.sizes, []).append(case)
    for sizes, cases in together.items():
        module = runner(step, answer, cases[0])
        for case in cases if sizes else ():
            try:
                got: Outcome = tidy(step, module(*copy.deepcopy(case.inputs).values()), case)
            except Exception as error:  # such as a mask that was kept and has another length
                got = error
            if not alike(got, computed(step, (), case)):
                return case
    return None


def recognised(step: str, outcomes: list[Outcome]) -> list[tuple[Mistake, ...]]:
    """Returns the known mistakes, or else pairs of them, with these outcomes in the large cases."""
    if not any(map(evident, outcomes, (computed(step, (), case) for case in probes(step)))):
        return []
    if single := {each.words: each for each in known(step) if fits(step, each.changes, outcomes)}:
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


def evident(got: Outcome, right: Tensor) -> bool:
    """Returns True if an outcome is wrong in more than an error or a NaN, which anything makes."""
    if isinstance(got, Exception) or got.shape != right.shape or family(got) != family(right):
        return isinstance(got, Tensor)
    return bool((got.isfinite() & ~close(got, right)).any())


def everywhere(step: str, answer: Any, found: tuple[Mistake, ...]) -> bool:
    """Returns True if mistakes compute the answer's numbers in the small cases, too."""
    changes = tuple(change for each in found for change in each.changes)
    cases = tried(step, answer, small(step))
    return all(alike(got, computed(step, changes, case)) for case, got in cases)


def fits(step: str, changes: Changes, outcomes: list[Outcome]) -> bool:
    return all(map(alike, outcomes, (computed(step, changes, case) for case in probes(step))))
