"""Tests a model for properties that any correct encoder-decoder has, such as causality."""

import copy
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..errors import invalid, require_type, require_whole
from ..search import Steps
from ..tokens import PADDING
from ..transformer import Transformer
from . import properties, reach
from .order import order
from .probe import AnswerError, Forward, Probe, told
from .properties import cached, gradient, padded
from .registered import leaves, registered, shared
from .report import Finding, Report
from .state import precisely, unchanged


def check(
    model: nn.Module,
    forward: Forward | None = None,
    *,
    source_vocab: int | None = None,
    target_vocab: int | None = None,
    padding: int = PADDING,
    step: Forward | None = None,
    tied: Iterable[tuple[str, str]] = (),
    seed: int = 0,
    quiet: bool = False,
) -> Report:
    """Calls a model on random sentences, and returns and prints a report of faults that this shows.

    The sentences have up to nine words, and a deep copy of the model gets them. A model that cannot
    be copied, or that `forward` takes from elsewhere, gets them itself: random generators and its
    modules' attributes, parameters and buffers are restored, but not what its other objects hold.

    Args:
        model: any encoder-decoder. Of an `unmasked.Transformer` the vocabularies, the tied
            pairs and, if there is no `forward`, the step are known.
        forward: `forward(model, source, target)` gives logits or log-probabilities [B, T, V] for
            tokens [B, S] and [B, T]; without it `model(source, target)` does. The target is what
            the decoder reads, so output t may depend on it up to t.
        source_vocab, target_vocab: the sizes of the vocabularies, padding included.
        padding: the ID of the token that fills short sentences.
        step: takes and returns what `forward` does, computed one token at a time, with a cache.
        tied: pairs of names of parameters that should be one tensor.
        seed: draws the words; the same one gives the same report.
        quiet: prints nothing.
    """
    require_type("model", model, nn.Module)
    pairs, config = list(tied), None
    if isinstance(model, Transformer):
        config, pairs = model.config, pairs + pairs_of(model)
        step = step_by_step if step is None and forward is None else step
    require_arguments(model, {"forward": forward, "step": step}, pairs, seed)
    source_vocab = vocabulary_size("source_vocab", source_vocab, config, padding)
    target_vocab = vocabulary_size("target_vocab", target_vocab, config, padding)
    cuda = [parameter.device for parameter in model.parameters() if parameter.is_cuda]
    tests: dict[str, Callable[[Probe], Finding]] = {
        "runs": properties.runs,
        "repeats": properties.repeats,
        "causality": reach.causality,
        "own words": reach.own_words,
        "source": reach.source,
        "order": order,
        "padding": padded,
        "gradient": gradient,
        "registered": registered,
        "tied": partial(shared, model=model, pairs=pairs),
        "cached": partial(cached, step=step or plainly),
    }
    silent = {} if step else {"cached": "no step was given"}
    with (
        torch.inference_mode(False),
        torch.random.fork_rng(cuda[:1]),
        precisely(),
        unchanged(model) as restore,
    ):
        probe = Probe(model, forward or plainly, (source_vocab, target_vocab), padding, seed)
        report = Report(tuple(findings(probe, tests, silent, restore)))
    if not quiet:
        print(report)
    return report


def findings(
    probe: Probe,
    tests: dict[str, Callable[[Probe], Finding]],
    silent: dict[str, str],
    restore: Callable[[], None],
) -> Iterator[Finding]:
    """Yields a finding for each test; a test in `silent` is skipped, for the reason given there.

    Each test gets the same model: a new copy, or the original, restored.
    """
    model, copies = probe.model, copyable(probe)
    restore()
    for name, test in tests.items():
        if name in silent:
            yield Finding(name, "not offered", silent[name])
            continue
        probe.model = (copy.deepcopy(model) if copies else model).eval()
        try:
            finding = test(probe)
        except AnswerError as error:
            finding = Finding(name, "fault", error.what, error.advice)
        except Exception as error:  # in our own arithmetic: that is no fault of the model
            finding = Finding(name, "not offered", f"the question failed: {told(error)}")
        probe.model = model  # and the copy's memory is free
        restore()
        if name == "runs" and finding.verdict == "fault":
            silent = dict.fromkeys(tests, "the model does not run")
        silent |= dict.fromkeys(probe.unsure, "two calls differ, so nothing can be compared")
        yield finding


def copyable(probe: Probe) -> bool:
    """Returns True if the model can be deep-copied, and the copy computes with its own parameters.

    A function that a model holds, such as a replaced forward, calls the original even in a copy.
    """
    model = probe.model
    try:
        probe.model = copy.deepcopy(model).eval()
        used = leaves(probe.watched(probe.target))
    except AnswerError:  # "runs" tells of it
        return True
    except Exception:  # whatever a part of the model raises that cannot be copied
        return False
    finally:
        probe.model = model
    return {id(leaf) for leaf in used}.isdisjoint(map(id, model.parameters()))


def plainly(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return model(source, target)


# --- What is known of our own models ----------------------------------------------------------


def step_by_step(model: Any, source: Tensor, target: Tensor) -> Tensor:
    """Returns the logits [B, T, V], computed as in a search: token by token, with a cache."""
    steps = Steps(model, source, 1, target.shape[1])
    first = torch.zeros_like(target[:, :1])  # each sentence has one hypothesis, number 0
    return torch.cat([steps.step(token[:, None], first) for token in target.unbind(1)], dim=1)


def pairs_of(model: Transformer) -> list[tuple[str, str]]:
    """Returns pairs of names of the parameters that the model's configuration ties."""
    shared, source = "target_embedding.tokens.weight", "source_embedding.tokens.weight"
    ties = model.config.tie_embeddings
    return [(shared, "generator.weight")] * bool(ties) + [(shared, source)] * (ties is True)


FEWEST = 4  # words: padding, and three for neighbours to differ and change places


def require_arguments(
    model: nn.Module, functions: dict[str, object], pairs: list[Any], seed: int
) -> None:
    if isinstance(model, torch.jit.ScriptModule):
        raise invalid("model", "a module written in Python", "a ScriptModule", "check its source")
    if any(is_lazy(parameter) or parameter.is_meta for parameter in model.parameters()):
        fix = "call a lazy model once; move one from the meta device with to_empty"
        raise invalid("model", "parameters that have numbers", "some without", fix)
    for name, function in functions.items():
        if function is not None and not callable(function):
            fix = f"write {name}=lambda model, source, target: …"
            got = type(function).__name__
            raise invalid(name, "a function of model, source and target", got, fix)
    named = dict(model.named_parameters(remove_duplicate=False))
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            fix = 'write tied=[("embedding.weight", "output.weight")]'
            raise invalid("tied", "pairs of parameter names", repr(pair), fix)
        for name in pair:
            if not isinstance(name, str) or name not in named:
                fix = "model.named_parameters(remove_duplicate=False) lists them"
                raise invalid("tied", "names of parameters", repr(name), fix)
    require_whole("seed", seed, 0, 2**64 - 1)


def vocabulary_size(argument: str, size: int | None, known: object, padding: int) -> int:
    """Returns the given vocabulary size, or that of the configuration `known`, and validates it."""
    size = getattr(known, argument, None) if size is None else size
    if size is None:
        fix = "pass source_vocab=… and target_vocab=…; only an unmasked.Transformer knows them"
        raise invalid(argument, "the number of words", None, fix)
    require_whole(argument, size, FEWEST, 10**8)
    require_whole("padding", padding, 0)
    if padding >= size:
        fix = "name the token that fills short sentences"
        raise invalid("padding", f"a token below {argument}={size}", padding, fix)
    return size
