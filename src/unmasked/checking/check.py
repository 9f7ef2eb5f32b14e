"""Tests a model for properties that any correct Transformer has, such as causality."""

import copy
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..errors import invalid, require_type, require_whole
from . import language, properties, reach
from .alike import alike
from .order import order
from .probe import AnswerError, Probe, told
from .properties import cached, gradient, padded
from .registered import leaves, registered, shared
from .report import Finding, Report
from .state import precisely, redrawn, unchanged


def check(
    model: nn.Module | str | type,
    forward: Callable[..., Tensor] | None = None,
    *,
    vocab: int | None = None,
    source_vocab: int | None = None,
    target_vocab: int | None = None,
    padding: int | None = None,
    step: Callable[..., Any] | None = None,
    encoder: bool = False,
    like: nn.Module | None = None,
    reorder: Callable[[Any, Tensor], Any] | None = None,
    crop: Callable[[Any, int], Any] | None = None,
    tied: Iterable[tuple[str, str]] = (),
    redraw: bool = False,
    seed: int = 0,
    quiet: bool = False,
) -> Report:
    """Calls a model on random sentences, and returns and prints a report of faults that this shows.

    The sentences have up to thirteen words, and a deep copy of the model gets them. A model that
    cannot be copied, or that `forward` takes from elsewhere, gets them itself: random generators
    and its modules' attributes, parameters and buffers are restored, but not what its other objects
    hold.

    Args:
        model: an encoder-decoder, a decoder or an encoder. An `unmasked.Transformer`, and a model
            of Hugging Face's transformers, needs no other argument; of a class there, its name, a
            configuration or "owner/name" a tiny random model is made.
        forward: `forward(model, source, target)` gives logits or log-probabilities [B, T, V] for
            tokens [B, S] and [B, T]; with one `vocab` `forward(model, tokens)` does. The target is
            what the decoder reads, so output t may depend on it up to t.
        vocab: the size of the one vocabulary of a decoder or an encoder alone, padding included.
        source_vocab, target_vocab: the sizes of an encoder-decoder's two.
        padding: the ID of the token that fills short sentences. If it is not given, an
            encoder-decoder's is 0, and a model with one `vocab` is taken to have none.
        step: with a cache, takes and returns what `forward` of an encoder-decoder does. With one
            `vocab`, `step(model, tokens, seen, cache)` returns the logits of the tokens that come
            after the first `seen`, and the new cache, which is None at first.
        encoder: an encoder may look both ways.
        like: another model that should compute the same, and that has the same weights.
        reorder: `reorder(cache, rows)` returns the cache with these rows; it is needed where the
            cache is more than tuples, lists and dicts of tensors with the batch first.
        crop: `crop(cache, n)` returns the cache without its last n tokens.
        tied: pairs of names of parameters that should be one tensor.
        redraw: asks a copy, its trained weights drawn anew, so large that every part shows.
        seed: draws the words; the same one gives the same report.
        quiet: prints nothing.
    """
    library = sys.modules.get("transformers")
    kind = isinstance(model, type) and hasattr(model, "config_class")
    configured = isinstance(model, getattr(library, "PreTrainedConfig", ()))
    if isinstance(model, str) or kind or configured:
        try:
            from .tiny import tiny
        except ImportError as error:
            fix = 'pip install "unmasked[check]"'
            raise invalid("model", "transformers to be installed", "none", fix) from error

        model = tiny(cast(Any, model), seed)
    require_type("model", model, nn.Module)
    model = cast(nn.Module, model)
    model = redrawn(copy.deepcopy(model), seed) if redraw else model
    known = options_of(model)
    pairs = [*tied, *known.get("tied", ())]
    if forward is None:
        forward, step = known.get("forward"), step or known.get("step")
        reorder, crop = reorder or known.get("reorder"), crop or known.get("crop")
        padding = known.get("padding") if padding is None else padding
        encoder = encoder or known.get("encoder", False)
    vocab = known.get("vocab") if vocab is None and source_vocab is None else vocab
    if vocab is None and padding is None:
        padding = 0
    if like is not None:
        require_type("like", like, nn.Module)
        like = copy.deepcopy(like).eval()
        if redraw:
            raise invalid("redraw", "False beside like=", "True", "redraw both models yourself")
    sides = ("source_vocab", "target_vocab") if vocab is None else ("vocab",)
    given = {"vocab": vocab, "source_vocab": source_vocab, "target_vocab": target_vocab}
    sizes = [vocabulary_size(side, given[side], known, padding) for side in sides]
    require_arguments(model, {"forward": forward, "step": step}, pairs, seed, len(sides))
    tests: dict[str, Callable[[Any], Finding]]
    if vocab is None:
        tests = {"runs": properties.runs, "repeats": properties.repeats,
                 "causality": reach.causality, "own words": reach.own_words,
                 "source": reach.source, "order": order, "padding": padded}  # fmt: skip
        silent = {} if step else {"cached": "no step was given"}
    else:
        pads = padding is not None
        tests, silent = language.questions(
            encoder=encoder, step=step, reorder=reorder, crop=crop, pads=pads
        )
    tests |= known.get("tests", {})
    tests |= {"gradient": gradient, "registered": registered}
    tests["tied"] = partial(shared, model=model, pairs=pairs)
    if vocab is None:
        tests["cached"] = partial(cached, step=step or plainly)
    if like is not None:
        tests["like"] = partial(alike, reference=like, forward=options_of(like).get("forward"))
    cuda = [parameter.device for parameter in model.parameters() if parameter.is_cuda]
    with (
        torch.inference_mode(False),
        torch.random.fork_rng(cuda[:1]),
        precisely(),
        unchanged(model) as restore,
    ):
        forward = forward or plainly
        if vocab is None:
            probe = Probe(model, forward, (sizes[0], sizes[1]), padding or 0, seed)
        else:
            rests = known.get("rests", False)
            probe = language.LanguageProbe(model, forward, vocab, padding, seed, rests)
        report = Report(tuple(findings(probe, tests, silent, restore)))
    if not quiet:
        print(report)
    return report


def options_of(model: nn.Module) -> dict[str, Any]:
    """Returns the arguments that a model names in `check_options`, or a Hugging Face model's."""
    library = sys.modules.get("transformers")
    if library is not None and isinstance(model, library.PreTrainedModel):
        from .huggingface import options

        return options(model)
    return getattr(model, "check_options", dict)()


def findings(
    probe: Probe,
    tests: dict[str, Callable[[Probe], Finding]],
    silent: dict[str, str],
    restore: Callable[[], None],
) -> Iterator[Finding]:
    """Yields a finding for each test; a test in `silent` is skipped, for the reason given there.

    Each test gets the same model: a new copy, or the original, restored.
    """
    model, copies, unclear = probe.model, copyable(probe), dict[str, str]()
    restore()
    for name, test in tests.items():
        if name in silent or name in unclear:
            verdict = "not offered" if name in silent else probe.unclear
            yield Finding(name, verdict, silent.get(name) or unclear[name])
            continue
        probe.model = (copy.deepcopy(model) if copies else model).eval()
        try:
            finding = test(probe)
        except AnswerError as error:
            lacks = name != "runs" and isinstance(error.__cause__, NotImplementedError)
            finding = Finding(name, "not offered" if lacks else "fault", error.what, error.advice)
        except Exception as error:  # in our own arithmetic: that is no fault of the model
            finding = Finding(name, "not offered", f"the question failed: {told(error)}")
        probe.model = model  # and the copy's memory is free
        restore()
        if name == "runs" and finding.verdict == "fault":
            silent = dict.fromkeys(tests, "the model does not run")
        unclear |= dict.fromkeys(probe.unsure, "two calls differ, so nothing can be compared")
        if finding.verdict == "fault":
            unclear |= dict.fromkeys(probe.followers.get(name, ()), f"see {name}, which may be why")
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


def plainly(model: nn.Module, *tokens: Tensor) -> Tensor:
    return model(*tokens)


FEWEST = 4  # words: padding, and three for neighbours to differ and change places


def require_arguments(
    model: nn.Module, functions: dict[str, object], pairs: list[Any], seed: int, sides: int
) -> None:
    if isinstance(model, torch.jit.ScriptModule):
        raise invalid("model", "a module written in Python", "a ScriptModule", "check its source")
    if any(is_lazy(parameter) or parameter.is_meta for parameter in model.parameters()):
        fix = "call a lazy model once; move one from the meta device with to_empty"
        raise invalid("model", "parameters that have numbers", "some without", fix)
    for name, function in functions.items():
        if function is not None and not callable(function):
            taken = "source, target" if sides == 2 else "tokens"
            fix = f"write {name}=lambda model, {taken}: …"
            raise invalid(name, f"a function of model, {taken}", type(function).__name__, fix)
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


def vocabulary_size(argument: str, size: int | None, known: Any, padding: int | None) -> int:
    """Returns the given vocabulary size, or that of the configuration `known`, and validates it."""
    size = known.get(argument) if size is None else size
    if size is None:
        fix = (
            "pass source_vocab=… and target_vocab=…; or vocab=…, for a decoder or an encoder alone"
        )
        raise invalid(argument, "the number of words", None, fix)
    require_whole(argument, size, FEWEST, 10**8)
    if padding is None:
        return size
    require_whole("padding", padding, 0)
    if padding >= size:
        fix = "name the token that fills short sentences"
        raise invalid("padding", f"a token below {argument}={size}", padding, fix)
    return size
