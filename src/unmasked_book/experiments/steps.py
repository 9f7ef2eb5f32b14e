"""Which step of chapter 16 finds which bug: small spellers, each with one bug, taken through them.

A `Case` is a model with all that belongs to it: its data, loss, training and search. `CASES` names
the sound one and the others; each bug changes one line of it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import unmasked
from unmasked import Transformer
from unmasked.attention import MultiHeadAttention
from unmasked.encoder import Residual
from unmasked.loss import teacher_forcing
from unmasked.masks import causal_mask, padding_mask
from unmasked.positions import SinusoidalPositions
from unmasked.tokens import BOS, EOS, PADDING
from unmasked.training import fit
from unmasked_book import examples
from unmasked_book.examples import FIRST_LETTER, LETTERS

Pair = tuple[Tensor, Tensor]
LONGEST = 9  # letters in a word
WORDS = 100  # that are new, for step 7
SEEDS = 1000  # those of new words are above it
FLOOR = 3.07  # the loss without any source: (6 ln 26 + ln 7) / 7
UPDATES, BY_HEART = 400, 150


class Case:
    """A sound one: each attribute and each method is what a bug may change."""

    meant: Mapping[str, Any] = {}  # options of the model that was wanted
    options: Mapping[str, Any] = {}  # and those of the one there is
    attention = MultiHeadAttention
    positions = SinusoidalPositions
    rate = 3e-3
    updates = UPDATES
    cached: Callable[..., Tensor] | None = None  # generates token by token, if not by `call`

    def make(self, seed: int) -> Transformer:
        model = examples.speller(seed=seed, **self.options)
        computing_as(model, SinusoidalPositions, self.positions)
        return computing_as(model, MultiHeadAttention, self.attention)

    def batches(self, steps: int, seed: int, **lengths: int) -> Iterator[Pair]:
        return examples.spelling_batches(steps, seed=seed, **lengths)

    def pair(self, target: Tensor) -> Pair:
        """What the decoder reads, and what it should say."""
        return teacher_forcing(target)

    def call(self, model: Transformer, source: Tensor, read: Tensor) -> Tensor:
        return cast(Tensor, model(source, read))

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.mT, labels, ignore_index=PADDING)

    def of(self, model: Transformer, source: Tensor, target: Tensor) -> Tensor:
        read, labels = self.pair(target)
        return self.loss(self.call(model, source, read), labels)

    def learn(self, model: Transformer, batches: Iterable[Pair]) -> None:
        fit(model, self.of, batches, rate=self.rate)

    def ready(self, model: Transformer) -> Transformer:
        return model.eval()

    def next(self, model: Transformer, source: Tensor, read: Tensor) -> Tensor:
        """The logits of the token after those that were generated."""
        return self.call(model, source, read)[:, -1]


# --- What the steps measure ---------------------------------------------------------------------


def trial(*, case: str, seed: int) -> dict[str, Any]:
    """All measurements of one case with one seed."""
    its = CASES[case]()
    source, target = next(its.batches(1, seed=SEEDS + seed))
    eight = (source[:8], target[:8])
    learner, model = its.make(seed), its.make(seed)
    with torch.no_grad():
        found: dict[str, Any] = {"start": its.of(model, source, target).item()}
    its.learn(learner, [eight] * BY_HEART)
    its.learn(model, its.batches(its.updates, seed=seed))
    with torch.no_grad():
        found["by heart"] = its.of(its.ready(learner), *eight).item()
        found |= in_use(its, its.ready(model), SEEDS + seed)
    return {"faults": faults(its, seed), **found, "beside a plain loop": apart(its, seed)}


def faults(case: Case, seed: int) -> list[str]:
    """Step 2: what `unmasked.check` says of the model, called as in training."""
    call: Any = case.call
    report = unmasked.check(
        case.make(seed),
        call,
        step=case.cached,
        source_vocab=LETTERS,
        target_vocab=LETTERS,
        quiet=True,
    )
    return [fault.property for fault in report.faults]


def in_use(case: Case, model: Transformer, seed: int) -> dict[str, float]:
    """Steps 5 to 7, on new words."""
    found = {"new words": case.of(model, *next(case.batches(1, seed=seed + 1))).item()}
    source, target = next(case.batches(1, seed=seed + 2, shortest=6, longest=6))
    for name, rows in (("own source", 0), ("another source", 2)):
        found[name] = case.of(model, source.roll(rows, dims=0), target).item()
    draws = torch.Generator().manual_seed(seed + 3)
    words = examples.random_words(WORDS, 3, LONGEST, draws)
    source, target = examples.encode_words(words)
    read, labels = teacher_forcing(target)
    found["given"] = right(case.call(model, source, read).argmax(-1), labels)
    found["unaided"] = right(generated(case, model, source), labels)
    wider = F.pad(source, (0, 2), value=PADDING)
    found["unaided, wider"] = right(generated(case, model, wider), labels)
    each = [generated(case, model, examples.encode_words([word])[0]) for word in words]
    found["unaided, one by one"] = right(torch.cat(each), labels)
    return found


def right(found: Tensor, labels: Tensor) -> float:
    """The share of words without a mistake; what comes after their <eos> does not count."""
    return ((found == labels) | (labels == PADDING)).all(-1).float().mean().item()


def generated(case: Case, model: Transformer, source: Tensor) -> Tensor:
    """The likeliest token at each of ten steps."""
    read = torch.full((len(source), 1), BOS)
    for _ in range(LONGEST + 1):
        likeliest = case.next(model, source, read).argmax(-1, keepdim=True)
        read = torch.cat([read, likeliest], dim=1)
    return read[:, 1:]


def apart(case: Case, seed: int) -> float | None:
    """How far losses and gradients are from those of a plain loop with the model that was meant:
    both start with the same weights and make two updates on the same batches. None if one of
    them lacks a parameter or a gradient that the other has.
    """
    batches = list(case.batches(2, seed=seed))
    plain, ours = Case(), case.make(seed)
    theirs = examples.speller(seed=seed, **case.meant)
    theirs.load_state_dict(ours.state_dict(), strict=False)
    ends: list[dict[str, Tensor | None]] = []
    for loop, model in ((case, ours), (plain, theirs)):
        torch.manual_seed(seed)
        loop.learn(model, batches)
        with torch.no_grad():
            loss = loop.of(loop.ready(model), *batches[0])
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        ends.append({"loss": loss, **gradients})
    if ends[0].keys() != ends[1].keys():
        return None
    distances = [(a - b).abs().max().item() for a, b in zip(*map(dict.values, ends), strict=True)
                 if a is not None and b is not None]  # fmt: skip
    return max(distances) if len(distances) == len(ends[0]) else None


# --- The rules: True where a step finds something -----------------------------------------------

STEPS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "2. check": lambda m: bool(m["faults"]),
    "3. first loss": lambda m: not -0.1 < m["start"] - math.log(LETTERS) < 1,
    "4. by heart": lambda m: not m["by heart"] < 0.1,
    "5. baseline": lambda m: not m["new words"] < FLOOR / 2,
    "6. swap": lambda m: not m["another source"] - m["own source"] > 1,
    "7. generate": lambda m: not (m["unaided"] > 0 and near(m["unaided"], m["given"])),
    "7. other widths": lambda m: not (near(m["unaided, wider"], m["given"])
                                      and near(m["unaided, one by one"], m["given"])),
    "a plain loop": lambda m: not close(m["beside a plain loop"]),
}  # fmt: skip


def close(distance: float | None) -> bool:
    return distance is not None and distance < 1e-4


def near(a: float, b: float) -> bool:
    return abs(a - b) < 0.025  # at most two words of a hundred


# --- The bugs -----------------------------------------------------------------------------------

CASES: dict[str, type[Case]] = {"no bug": Case}


def bug(name: str) -> Callable[[type[Case]], type[Case]]:
    """Gives a case its name."""

    def register(case: type[Case]) -> type[Case]:
        CASES[name] = case
        return case

    return register


def computing_as(model: Transformer, kind: type[nn.Module], other: type[nn.Module]) -> Transformer:
    """Every part of that kind computes as the other kind does, with the weights it has."""
    for part in model.modules():
        if type(part) is kind:
            part.__class__ = other
    return model


# Data and labels


@bug("labels not shifted")
class NotShifted(Case):
    def pair(self, target: Tensor) -> Pair:
        return target, target


@bug("labels without <eos>")
class WithoutEnd(Case):
    def pair(self, target: Tensor) -> Pair:
        read, labels = super().pair(target)
        return read, labels.masked_fill(labels == EOS, PADDING)


@bug("pairs out of step")
class OutOfStep(Case):
    def batches(self, steps: int, seed: int, **lengths: int) -> Iterator[Pair]:
        for source, target in super().batches(steps, seed, **lengths):
            yield source, target.roll(1, dims=0)


@bug("one token everywhere in the source")
class OneToken(Case):
    def call(self, model: Transformer, source: Tensor, read: Tensor) -> Tensor:
        return super().call(model, source.clamp(max=FIRST_LETTER), read)


# Loss and training


@bug("a sum instead of a mean")
class Sum(Case):
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.mT, labels, ignore_index=PADDING, reduction="sum")


@bug("padding in the divisor")
class PaddingInDivisor(Case):
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        each = F.cross_entropy(logits.mT, labels, ignore_index=PADDING, reduction="none")
        return each.mean()


@bug("ignore_index forgotten")
class PaddingScored(Case):
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.mT, labels)


@bug("a softmax before the loss")
class SoftmaxTwice(Case):
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super().loss(logits.softmax(-1), labels)


@bug("an optimiser of other parameters")
class OtherParameters(Case):
    def learn(self, model: Transformer, batches: Iterable[Pair]) -> None:
        super().learn(copy.deepcopy(model), batches)


@bug("gradients never cleared")
class NeverCleared(Case):
    def learn(self, model: Transformer, batches: Iterable[Pair]) -> None:
        with mock.patch.object(torch.optim.Optimizer, "zero_grad"):
            super().learn(model, batches)


# Masks


@bug("no causal mask")
class NoCausalMask(Case):
    def call(self, model: Transformer, source: Tensor, read: Tensor) -> Tensor:
        return model(source, read, target_mask=padding_mask(read))


@bug("a causal mask off by one")
class OffByOne(Case):
    def call(self, model: Transformer, source: Tensor, read: Tensor) -> Tensor:
        seen = torch.ones(read.shape[1], read.shape[1], dtype=torch.bool).tril(1)
        return model(source, read, target_mask=padding_mask(read) & seen)


@bug("a mask of the wrong polarity")
class Polarity(Case):
    def call(self, model: Transformer, source: Tensor, read: Tensor) -> Tensor:
        return model(source, read, target_mask=padding_mask(read) & ~causal_mask(read.shape[1]))


@bug("no causal mask in evaluation")
class NoMaskInEvaluation(Case):
    def call(self, model: Transformer, source: Tensor, read: Tensor) -> Tensor:
        mask = None if model.training else padding_mask(read)
        return model(source, read, target_mask=mask)


@bug("padding seen")
class PaddingSeen(Case):
    def call(self, model: Transformer, source: Tensor, read: Tensor) -> Tensor:
        return model(source, read, source_mask=torch.ones_like(padding_mask(source)))


# Attention


class Merged(MultiHeadAttention):
    @staticmethod
    def merge(x: Tensor) -> Tensor:
        return x.reshape(len(x), x.shape[2], -1)  # and the transpose?


class SplitAndMerged(Merged):
    def split(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), self.n_heads, x.shape[1], -1)  # and the transpose?


class ValuesAsQueries(MultiHeadAttention):
    def keys_and_values(self, key: Tensor, value: Tensor, _: Any = None) -> Any:
        return self.split(self.key(key)), self.split(self.query(value))


@bug("heads merged without a transpose")
class HeadsMerged(Case):
    attention = Merged


@bug("heads split and merged without a transpose")
class HeadsSplit(Case):
    attention = SplitAndMerged


@bug("the wrong matrix")
class WrongMatrix(Case):
    attention = ValuesAsQueries


@bug("a wrong square root")
class WrongRoot(Case):
    """Longer queries, so that √2 is left of the division by √K."""

    def make(self, seed: int) -> Transformer:
        model = super().make(seed)
        for part in model.modules():
            if isinstance(part, MultiHeadAttention):
                longer = math.sqrt(part.d_model / part.n_heads / 2)
                part.query.register_forward_hook(lambda _, __, out, longer=longer: out * longer)
        return model


# Positions


class NoPositions(SinusoidalPositions):
    def forward(self, x: Tensor, start: int = 0) -> Tensor:  # noqa: ARG002 (as its parent)
        return x


class OfTheRow(SinusoidalPositions):
    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x + self.rows(len(x), start)[:, None]


class AlwaysTheFirst(SinusoidalPositions):
    def forward(self, x: Tensor, start: int = 0) -> Tensor:  # noqa: ARG002 (that is the bug)
        return super().forward(x)


@bug("no positions")
class WithoutPositions(Case):
    positions = NoPositions


@bug("positions along the batch")
class PositionsOfRows(Case):
    positions = OfTheRow


@bug("positions that start anew")
class Anew(Case):
    positions = AlwaysTheFirst

    def cached(self, model: Transformer, source: Tensor, read: Tensor) -> Tensor:
        mask, state = padding_mask(source), model.start()
        memory = model.encode(source)
        steps = [model.decode(token, memory, source_mask=mask, state=state)
                 for token in read.split(1, dim=1)]  # fmt: skip
        return cast(Tensor, model.generator(torch.cat(steps, dim=1)))

    def next(self, model: Transformer, source: Tensor, read: Tensor) -> Tensor:
        return self.cached(model, source, read)[:, -1]


# Modules


class Forgetful(Residual):
    def forward(self, x: Tensor, sublayer: Callable[..., Tensor], **options: object) -> Tensor:
        return self.dropout(sublayer(self.norm(x), **options))  # and x?


@bug("no residual")
class NoResidual(Case):
    """Around cross-attention."""

    def make(self, seed: int) -> Transformer:
        model = super().make(seed)
        for layer in model.decoder.layers:
            layer.cross_residual.__class__ = Forgetful
        return model


@bug("layers in a list")
class Listed(Case):
    def make(self, seed: int) -> Transformer:
        model = super().make(seed)
        for stack in (model.encoder, model.decoder):
            layers = list(stack.layers)
            del stack.layers
            object.__setattr__(stack, "layers", layers)
        return model


@bug("a start that is too large")
class LargeStart(Case):
    """Tied embeddings as large as `nn.Embedding` makes them."""

    meant: Mapping[str, Any] = {"tie_embeddings": "output"}
    options: Mapping[str, Any] = {**meant, "embedding_std": 1.0}


@bug("a missing √d")
class MissingRoot(Case):
    options: Mapping[str, Any] = {"scale_embeddings": False}


@bug("the wrong activation")
class Gelu(Case):
    options: Mapping[str, Any] = {"activation": "gelu"}


@bug("dropout still on")
class DropoutStillOn(Case):
    meant = options = {"dropout": 0.3}  # noqa: RUF012

    def ready(self, model: Transformer) -> Transformer:
        return model.train()


# No bugs, and yet


@bug("no bug, rate far too low")
class Low(Case):
    rate = 1e-4


@bug("no bug, rate far too high")
class High(Case):
    rate = 0.1


@bug("no bug, a warm-up of 4,000 updates")
class LongWarmUp(Case):
    """As in the paper: after 150 updates the rate is 4% of its peak, after 400 a tenth."""

    def learn(self, model: Transformer, batches: Iterable[Pair]) -> None:
        optimizer = torch.optim.Adam(model.parameters(), self.rate)
        model.train()
        for step, batch in enumerate(batches, 1):
            for group in optimizer.param_groups:
                group["lr"] = self.rate * step / 4000
            optimizer.zero_grad()
            self.of(model, *batch).backward()
            optimizer.step()


@bug("no bug, a tenth of the training")
class Short(Case):
    updates = UPDATES // 10
