"""The questions that `check` puts to a model, and how far two answers may lie apart."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import shape

Forward = Callable[[nn.Module, Tensor, Tensor], Tensor]
# Primes, for no dimension to fit in the place of another by chance; and rows enough for sharp
# attention to look at each word in one of them.
ROWS, SOURCE, TARGET = 11, 7, 5
# Of source and target, in the batch that has padding; some packed layers want the longest first.
LENGTHS = ((7, 3), *[(7, 5)] * (ROWS - 3), (4, 5), (2, 1))


class AnswerError(Exception):
    """The model gave no logits: what happened instead, and what to do."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what)
        self.what, self.advice = what, advice


def backward(output: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """The gradients of one number; nothing is written to `.grad`."""
    try:
        return torch.autograd.grad(output, inputs, retain_graph=True, allow_unused=True)
    except Exception as error:
        fix = "the message says why; most often a tensor was written into after it was used"
        raise AnswerError(f"backward: {type(error).__name__}: {error}", fix) from error


class Words:
    """The words of one side: anything but padding, and none of the first few if there are more.

    The first numbers are often special, such as the one that ends a sentence.
    """

    def __init__(self, vocabulary: int, padding: int, device: torch.device) -> None:
        tokens = [token for token in range(vocabulary) if token != padding]
        self.tokens = torch.tensor(tokens[3:] if len(tokens) > 10 else tokens, device=device)

    def draw(self, length: int, draws: torch.Generator) -> Tensor:
        """Random sentences [ROWS, length] in which no word follows itself."""
        steps = torch.randint(1, len(self.tokens), (ROWS, length), generator=draws)
        return self.tokens[steps.cumsum(1).to(self.tokens.device) % len(self.tokens)]

    def others(self, tokens: Tensor) -> Tensor:
        """Another word for each."""
        place = torch.searchsorted(self.tokens, tokens.contiguous())
        return self.tokens[(place + len(self.tokens) // 2) % len(self.tokens)]


class Probe:
    """A model, and the sentences that it is asked about.

    `probe(source, target)` is its answer [B, T, V] in float64 on the CPU. Before each question
    the random numbers begin anew, so that even a model with dropout answers the same again.
    """

    def __init__(
        self, model: nn.Module, forward: Forward, vocabularies: tuple[int, int], padding: int,
        seed: int,
    ) -> None:  # fmt: skip
        self.model, self.forward, self.padding, self.seed = model, forward, padding, seed
        tensors = [*model.parameters(), *model.buffers()]
        self.device = tensors[0].device if tensors else torch.device("cpu")
        cuda = torch.cuda.default_generators if self.device.type == "cuda" else ()
        self.generators = [torch.default_generator, *cuda[self.device.index or 0 :][:1]]
        self.vocabularies, self.wrote = vocabularies, False
        self.unsure: tuple[str, ...] = ()  # properties that a model which wavers leaves unclear
        floating = [tensor.dtype for tensor in tensors if tensor.is_floating_point()]
        self.eps = max((torch.finfo(dtype).eps for dtype in floating), default=0.0)
        self.words = [Words(size, padding, self.device) for size in vocabularies]
        self.draws = torch.Generator().manual_seed(seed)
        self.source, self.target = (
            words.draw(length, self.draws)
            for words, length in zip(self.words, (SOURCE, TARGET), strict=True)
        )

    # --- Asking -----------------------------------------------------------------------------------

    def answer(self, source: Tensor, target: Tensor, forward: Forward | None = None) -> Tensor:
        """What forward returns, as it is, if it has the type and shape of logits."""
        given = source.clone(), target.clone()
        sizes = f"it was given integers of shape {shape(source)} and {shape(target)}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = (forward or self.forward)(self.model, *given)
        except Exception as error:
            fix = f"{sizes}; pass forward=… if the model is to be called in another way"
            raise AnswerError(f"{type(error).__name__}: {error}", fix) from error
        self.wrote |= not (torch.equal(given[0], source) and torch.equal(given[1], target))
        expected = [*target.shape, self.vocabularies[1]]
        if not isinstance(answer, Tensor) or not answer.is_floating_point() or answer.is_meta:
            got = str(answer.dtype) if isinstance(answer, Tensor) else type(answer).__name__
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
        """The answer with its gradients' graph, while these modules have a hook each."""
        with ExitStack() as listening, torch.enable_grad():
            for module, hook in hooks:
                listening.enter_context(module.register_forward_hook(hook))
            self.begin_anew()
            return self.answer(self.source, target)

    @cached_property
    def base(self) -> Tensor:
        """The answer for the sentences as they are."""
        return self(self.source, self.target)

    @cached_property
    def scale(self) -> Scale:
        return Scale(self.base, self.eps)

    # --- What is asked about more than once -----------------------------------------------------

    def influence(self, side: int, length: int = SOURCE) -> Tensor:
        """How far the change of each word moves each output: [S, T] for side 0, [T, T] for 1.

        Of the source so many words are given.
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
        """Of the source's words and of the target's own."""
        return self.influence(0), self.influence(1)

    @cached_property
    def ragged(self) -> tuple[Tensor, Tensor, Tensor]:
        """The sentences cut to different lengths and padded; which target words are real [B, T]."""
        lengths = torch.tensor(LENGTHS, device=self.device)
        real = [
            torch.arange(sentences.shape[1], device=self.device) < lengths[:, side, None]
            for side, sentences in enumerate((self.source, self.target))
        ]
        source = self.source.masked_fill(~real[0], self.padding)
        return source, self.target.masked_fill(~real[1], self.padding), real[1]


def apart(a: Tensor, b: Tensor) -> Tensor:
    """The largest difference at each position: twice [..., T, V] → [..., T]; NaN is infinitely far.

    Two equal infinities are no distance apart.
    """
    gap = (a - b).abs().masked_fill(a == b, 0.0)
    return gap.nan_to_num(nan=math.inf, posinf=math.inf).amax(-1)


def can_be_said(answer: Tensor) -> Tensor:
    """The words that are not forbidden, by minus infinity, at every position: [V], boolean."""
    return (answer != -math.inf).flatten(0, -2).any(0)


class Scale:
    """How far apart two answers may be, from the sizes of one and the machine's precision `eps`.

    All limits grow slower than `eps` does: little can be told apart in bfloat16, but not nothing.
    """

    def __init__(self, answer: Tensor, eps: float) -> None:
        numbers = answer[..., can_be_said(answer)]
        self.spread = float((numbers - numbers.mean(-1, keepdim=True)).std())
        self.fine = eps < 1e-5  # half precision is coarse
        ulp = float(numbers.abs().max()) * eps
        self.same = ulp * eps**-0.2  # the same steps: questions of one shape
        self.close = self.same + self.spread * eps**0.5  # other steps: sums in another order
        # Words that change places change the order of sums, and little else in a faulty model.
        self.swapped = self.same + self.spread * eps**0.7 if self.fine else 4 * ulp
        self.clear = self.swapped * (20 if self.fine else 4)  # moved enough to judge an exchange
        self.hardly = 2 * ulp if self.fine else 0.0  # else every change counts
