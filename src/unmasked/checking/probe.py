"""Calls a model on random sentences for `check`, and says how far two outputs may differ."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..errors import printable, shape
from .report import Verdict

Forward = Callable[[nn.Module, Tensor, Tensor], Tensor]
# Primes, so that no dimension fits in the place of another by chance. There are rows enough for
# sharp attention to look at each word in one of them.
ROWS = 11
# Lengths of source and target in the padded batch; some packed layers want the longest first.
LENGTHS = ((7, 3), *[(7, 5)] * (ROWS - 3), (4, 5), (2, 1))


class AnswerError(Exception):
    """Tells of a call that failed or gave wrong logits: `what` happened, `advice` what to do."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what)
        self.what, self.advice = what, advice


def told(error: Exception) -> str:
    """Returns an exception's type and message in one line that is safe to print."""
    try:
        return printable(f"{type(error).__name__}: {error}")
    except Exception:  # its own __str__ may raise one
        return type(error).__name__


def backward(output: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """Returns the gradient of a scalar by each input, or None if it is unused; sets no `.grad`."""
    try:
        return torch.autograd.grad(output, inputs, retain_graph=True, allow_unused=True)
    except Exception as error:
        fix = "the message says why; most often a tensor was written into after it was used"
        raise AnswerError(f"backward: {told(error)}", fix) from error


class Words:
    """This class holds the token IDs of which source or target sentences are made in a test.

    It leaves out padding and, of more than ten, the first three, such as one that ends a sentence.
    """

    def __init__(self, vocabulary: int, padding: int, device: torch.device) -> None:
        tokens = [token for token in range(vocabulary) if token != padding]
        self.tokens = torch.tensor(tokens[3:] if len(tokens) > 10 else tokens, device=device)

    def draw(self, length: int, draws: torch.Generator) -> Tensor:
        """Returns random token IDs [ROWS, length] in which no token follows itself."""
        steps = torch.randint(1, len(self.tokens), (ROWS, length), generator=draws)
        return self.tokens[steps.cumsum(1).to(self.tokens.device) % len(self.tokens)]

    def others(self, tokens: Tensor) -> Tensor:
        """Returns token IDs of the same shape, each one replaced by another."""
        place = torch.searchsorted(self.tokens, tokens.contiguous())
        return self.tokens[(place + len(self.tokens) // 2) % len(self.tokens)]


class Probe:
    """A probe holds a model and random sentences, and calls the model on them.

    `probe(source, target)` returns logits [B, T, V] in float64 on the CPU. The random generators
    are seeded anew before each call, so that even a model with dropout gives the same logits.
    """

    unclear: Verdict = "not offered"  # the verdict where an earlier fault may be the reason,
    followers: Mapping[str, tuple[str, ...]] = {}  # and for which tests each fault may be that
    target_word = "target"  # what findings call one

    def __init__(
        self, model: nn.Module, forward: Forward, vocabularies: tuple[int, int], padding: int,
        seed: int, lengths: Sequence[tuple[int, int]] = LENGTHS,
    ) -> None:  # fmt: skip
        self.model, self.padding, self.seed = model, padding, seed
        self.forward = self.called(forward)
        self.lengths = lengths
        tensors = [*model.parameters(), *model.buffers()]
        self.device = tensors[0].device if tensors else torch.device("cpu")
        cuda = torch.cuda.default_generators if self.device.type == "cuda" else ()
        self.generators = [torch.default_generator, *cuda[self.device.index or 0 :][:1]]
        self.vocabularies, self.wrote = vocabularies, False
        self.unsure: tuple[str, ...] = ()  # properties that unsteady answers leave unclear
        floating = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
        self.eps = max((torch.finfo(dtype).eps for dtype in floating), default=0.0)
        self.words = [Words(size, padding, self.device) for size in vocabularies]
        self.draws = torch.Generator().manual_seed(seed)
        self.source, self.target = (
            words.draw(length, self.draws)
            for words, length in zip(self.words, map(max, *lengths), strict=True)
        )

    # --- Asking -----------------------------------------------------------------------------------

    def answer(self, source: Tensor, target: Tensor, forward: Forward | None = None) -> Tensor:
        """Returns what forward returns for the tokens; AnswerError unless that is [B, T, V]."""
        given = source.clone(), target.clone()
        sizes = " and ".join(shape(tokens) for tokens in given if tokens.numel())
        sizes = f"it was given integers of shape {sizes}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = (forward or self.forward)(self.model, *given)
        except AnswerError:
            raise
        except Exception as error:
            other = "pass forward=… if the model is to be called in another way"
            fix = f"{sizes}; {other if forward is None else 'look into step'}"
            raise AnswerError(told(error), fix) from error
        self.wrote |= not (torch.equal(given[0], source) and torch.equal(given[1], target))
        expected = [*target.shape, self.vocabularies[1]]
        dense = isinstance(answer, Tensor) and answer.layout == torch.strided
        if not dense or not answer.is_floating_point() or answer.is_meta:
            got = type(answer).__name__
            if isinstance(answer, Tensor):
                got = str(answer.dtype if dense else answer.layout)
            fix = "take the logits out: forward=lambda model, source, target: …"
            raise AnswerError(f"the answer is no floating-point tensor but {got}", fix)
        if list(answer.shape) != expected:
            fix = (
                "the last layer should map to the target vocabulary, and the batch should come "
                "first; forward=… can turn round what comes in and goes out"
            )
            got = shape(answer)
            raise AnswerError(f"the answer has shape {got} instead of {expected}; {sizes}", fix)
        self.eps = max(self.eps, torch.finfo(answer.dtype).eps)
        return answer

    def called(self, forward: Any) -> Forward:
        """Returns `forward` as it is called here: with model, source and target."""
        return cast(Forward, forward)

    def resting(self) -> list[str]:
        """Returns the paths of submodules that a call may leave out."""
        return []

    def begin_anew(self) -> None:
        for generator in self.generators:
            generator.manual_seed(self.seed)

    def __call__(
        self, source: Tensor, target: Tensor, forward: Forward | None = None, *, grad: bool = False
    ) -> Tensor:
        self.begin_anew()
        with torch.set_grad_enabled(grad):
            return self.answer(source, target, forward).detach().cpu().double()

    def watched(
        self, target: Tensor, hooks: Iterable[tuple[nn.Module, Callable[..., Any]]] = ()
    ) -> Tensor:
        """Returns the logits of `target` with their autograd graph, under these forward hooks."""
        with ExitStack() as listening, torch.enable_grad():
            for module, hook in hooks:
                listening.enter_context(module.register_forward_hook(hook))
            self.begin_anew()
            return self.answer(self.source, target)

    @cached_property
    def base(self) -> Tensor:
        """Returns the model's logits for the probe's own source and target, [B, T, V]."""
        return self(self.source, self.target)

    @cached_property
    def scale(self) -> Scale:
        return Scale(self.base, self.eps)

    def weights(self) -> Iterator[None]:
        """Yields twelve times: with the model's own weights, then with others drawn in their place.

        With the others no softmax is sharp, and a router chooses other experts. Zeros stay zeros.
        """
        draws = torch.Generator().manual_seed(self.seed)
        for _ in range(12):
            yield
            for parameter in self.model.parameters():
                if parameter.dim() > 1 and parameter.any():
                    numbers = torch.randn(parameter.shape, generator=draws)
                    parameter.data.copy_(numbers * parameter[0].numel() ** -0.5)
                else:
                    parameter.data.clamp_(-1, 1)

    # --- What is asked about more than once -----------------------------------------------------

    def influence(self, side: int, length: int | None = None) -> Tensor:
        """Returns how far replacing each word moves each output's logits, [S, T] or [T, T].

        Side 0 replaces source words, side 1 target words. The source is cut to `length` words.
        """
        sentences = self.source[:, :length], self.target
        base, moved = self(*sentences), []
        for place in range(sentences[side].shape[1]):
            source, target = question = [tokens.clone() for tokens in sentences]
            words = question[side][:, place]
            words.copy_(self.words[side].others(words))
            moved.append(apart(self(source, target), base).amax(0))
        return torch.stack(moved)

    @cached_property
    def influences(self) -> tuple[Tensor, Tensor]:
        """Returns how far each source word [S, T] and target word [T, T] moves each output."""
        return self.influence(0), self.influence(1)

    @cached_property
    def ragged(self) -> tuple[Tensor, Tensor, Tensor]:
        """Returns source and target, cut and padded, and which target tokens are words, [B, T]."""
        lengths = torch.tensor(self.lengths, device=self.device)
        real = [
            torch.arange(sentences.shape[1], device=self.device) < lengths[:, side, None]
            for side, sentences in enumerate((self.source, self.target))
        ]
        source = self.source.masked_fill(~real[0], self.padding)
        return source, self.target.masked_fill(~real[1], self.padding), real[1]


def apart(a: Tensor, b: Tensor) -> Tensor:
    """Returns two logits' largest difference at each position: twice [..., T, V] → [..., T].

    A NaN makes it infinite, and two equal infinities differ by 0.
    """
    gap = (a - b).abs().masked_fill(a == b, 0.0)
    return gap.nan_to_num(nan=math.inf, posinf=math.inf).amax(-1)


def can_be_said(answer: Tensor) -> Tensor:
    """Marks the words whose logit is above minus infinity at some position: [B, T, V] → [V]."""
    return (answer != -math.inf).flatten(0, -2).any(0)


class Scale:
    """A scale holds how far apart the logits of two calls may be if they differ by rounding only.

    It follows from the logits' size and grows slower than the precision `eps`, to suit bfloat16.
    """

    def __init__(self, answer: Tensor, eps: float) -> None:
        numbers = answer[..., can_be_said(answer)].flatten(0, -2)
        if (varies := numbers.amax(0) > numbers.amin(0)).any():
            numbers = numbers[:, varies]  # without what some models put in place of padding's logit
        self.spread = float((numbers - numbers.mean(-1, keepdim=True)).std())
        self.fine = eps < 1e-5  # half precision is coarse
        ulp = float(numbers.abs().max()) * eps
        self.same = ulp * eps**-0.2  # for questions of one shape, computed in the same order
        self.close = self.same + self.spread * eps**0.5  # where sums are taken in another order
        # In a model without positions, words that change places change only the order of sums.
        self.swapped = self.same + self.spread * eps**0.7 if self.fine else 4 * ulp
        self.clear = self.swapped * (20 if self.fine else 4)  # moved enough to judge an exchange
        self.hardly = 2 * ulp if self.fine else 0.0  # else every change counts
