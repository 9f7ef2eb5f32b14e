"""A small encoder-decoder in plain torch, and what people do to theirs, each in a few lines.

`FAULTY` names the mistakes; each makes a model, says how to ask it if not by `model(source,
target)`, and which properties `unmasked.check` must then find at fault: these, and no others.
"""

# ruff: noqa: ARG002, ARG005, E501 (the faulty versions take what the healthy one takes; a table)
# Written as one writes at home, without types:
# mypy: ignore-errors

import math
import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from unmasked import Transformer, TransformerConfig
from unmasked.positions import sinusoids
from unmasked_book.workshop.mistakes import known
from unmasked_book.workshop.reference import module, whole

SOURCE, TARGET = 13, 17  # words
VOCABULARIES = {"source_vocab": SOURCE, "target_vocab": TARGET}
WIDTH, HEADS = 8, 2


class Attention(nn.Module):
    """Multi-head attention; masks are True where one may look."""

    hidden = -math.inf  # the score of what is hidden
    axis = -1

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def split(self, x):  # [B, L, D] → [B, H, L, K]
        return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)

    def merge(self, x):
        return x.transpose(1, 2).flatten(2)

    def scores(self, x, memory):
        q, k = self.split(self.query(x)), self.split(self.key(memory))
        return q @ k.transpose(2, 3) / math.sqrt(WIDTH / HEADS)

    def forward(self, x, memory, mask):
        scores = self.scores(x, memory).masked_fill(~mask, self.hidden)
        return self.output(self.merge(scores.softmax(self.axis) @ self.split(self.value(memory))))


class Layer(nn.Module):
    """Post-norm. What the decoder's self-attention looks at is `past`: x, or a cache."""

    def __init__(self, attention, norm, across):
        super().__init__()
        self.own, self.across = attention(), attention() if across else None
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH))
        self.norms = nn.ModuleList(norm() for _ in range(3 if across else 2))

    def forward(self, x, past, mask, memory=None, memory_mask=None):
        x = self.norms[0](x + self.own(x, past, mask))
        if self.across is not None:
            x = self.norms[2](x + self.across(x, memory, memory_mask))
        return self.norms[1](x + self.feed_forward(x))


class Healthy(nn.Module):
    """Nothing is wrong with it."""

    attention, layer = Attention, Layer

    def __init__(self):
        super().__init__()
        self.source_words, self.target_words = (nn.Embedding(n, WIDTH) for n in (SOURCE, TARGET))
        self.register_buffer("table", sinusoids(0, 30, WIDTH).float())
        self.encoder, self.decoder = (
            nn.ModuleList(self.layer(self.attention, self.norm, across) for _ in range(2))
            for across in (False, True)
        )
        self.output = nn.Linear(WIDTH, TARGET)

    def norm(self):
        return nn.LayerNorm(WIDTH)

    def embed_source(self, source):
        return self.source_words(source) * math.sqrt(WIDTH) + self.table[: source.shape[1]]

    def embed_target(self, target, start=0):
        places = self.table[start : start + target.shape[1]]
        return self.target_words(target) * math.sqrt(WIDTH) + places

    def source_mask(self, source):
        return (source != 0)[:, None, None, :]

    def causal(self, n):
        return torch.ones(n, n, dtype=torch.bool).tril()

    def target_mask(self, target, layer):
        return self.causal(target.shape[1])

    def encode(self, source):
        x = self.embed_source(source)
        for layer in self.encoder:
            x = layer(x, x, self.source_mask(source))
        return x

    def memory_mask(self, source, target):
        return self.source_mask(source)

    def decode(self, target, memory, memory_mask):
        x = self.embed_target(target)
        for number, layer in enumerate(self.decoder):
            x = layer(x, x, self.target_mask(target, number), memory, memory_mask)
        return x

    def forward(self, source, target):
        memory = self.encode(source)
        return self.output(self.decode(target, memory, self.memory_mask(source, target)))


class Torch(nn.Module):
    """`nn.Transformer` between embeddings and logits."""

    hides_padding_across = True

    def __init__(self, **options):
        super().__init__()
        self.batch_first = options.setdefault("batch_first", True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a fast path that some options close
            self.core = nn.Transformer(WIDTH, HEADS, 2, 2, 16, **options)
        self.source_words, self.target_words = (nn.Embedding(n, WIDTH) for n in (SOURCE, TARGET))
        self.register_buffer("table", sinusoids(0, 30, WIDTH).float())
        self.output = nn.Linear(WIDTH, TARGET)

    def blocked(self, n):
        return torch.ones(n, n, dtype=torch.bool).triu(1)

    def forward(self, source, target):
        x = self.source_words(source) + self.table[: source.shape[1]]
        y = self.target_words(target) + self.table[: target.shape[1]]
        if not self.batch_first:
            x, y = x.transpose(0, 1), y.transpose(0, 1)
        padding = source == 0
        y = self.core(
            x, y, tgt_mask=self.blocked(target.shape[1]), src_key_padding_mask=padding,
            memory_key_padding_mask=padding if self.hides_padding_across else None,
        )  # fmt: skip
        return self.output(y if self.batch_first else y.transpose(0, 1))


def step(model, source, target, *, start=lambda time: time, grows=lambda layer: True, encode=None):
    """One token at a time; each layer remembers what went into it."""
    memory, outputs = (encode or model.encode)(source), []
    caches = [[] for _ in model.decoder]
    for time in range(target.shape[1]):
        x = model.embed_target(target[:, time : time + 1], start(time))
        for number, (layer, cache) in enumerate(zip(model.decoder, caches, strict=True)):
            cache.append(x)
            past = torch.cat(cache if grows(number) else cache[-1:], dim=1)
            everything = torch.ones(1, past.shape[1], dtype=torch.bool)
            x = layer(x, past, everything, memory, model.source_mask(source))
        outputs.append(model.output(x))
    return torch.cat(outputs, dim=1)


class Fault(NamedTuple):
    make: Callable[[], nn.Module]
    properties: set[str]
    options: dict[str, Any]


FAULTY: dict[str, Fault] = {}


def faulty(*properties, **options):
    """Registers a class or a function that makes a model."""

    def register(make):
        ours = make.__name__.startswith("ours")  # its vocabularies are known
        given = options if ours else {**VOCABULARIES, **options}
        FAULTY[make.__name__] = Fault(make, set(properties), given)
        return make

    return register


PLANTED = {  # of the workshop's known mistakes: name, step, words
    "AMaskWithoutItsDiagonal": ("causal_mask", "a triangle that hides each word from itself"),
    "AHiddenScoreOfNearlyZero": ("attention", "hidden scores of zero (or nearly): e⁰ is 1, so hidden keys are seen"),
    "ASoftmaxOverTheQueries": ("attention", "a softmax over the queries"),
    "ASoftmaxOverTheBatch": ("attention", "a softmax over the batch"),
    "HeadsThatAreCutOutOfPositions": ("MultiHeadAttention", "heads split without a transpose"),
    "ATargetThatIsShiftedTwice": ("Transformer", "a target that the model shifts once more"),
    "CrossAttentionWithoutItsResidual": ("DecoderLayer", "no sum around cross-attention"),
    "NoCrossAttention": ("DecoderLayer", "no cross-attention"),
    "CrossAttentionThatReadsTheTarget": ("DecoderLayer", "cross-attention that reads the target, not the memory"),
    "NoPositionsInTheEncoder": ("Transformer", "no positions in the encoder"),
    "NoPositionsInTheDecoder": ("Transformer", "no positions in the decoder"),
    "PositionsThatGoDownTheBatch": ("Transformer", "positions that count the sentences of the batch, not the tokens"),
    "SourcePaddingIsSeenInCrossAttention": ("Transformer", "cross-attention that sees the source's padding"),
    "AnotherTokenForPadding": ("padding_mask", "a mask that hides <bos> (1) and shows the padding"),
    "OneSentencesPaddingForAll": ("padding_mask", "the first sentence's mask for every sentence"),
}  # fmt: skip


def planted(name, *properties):
    """Registers a known mistake of the workshop, planted in plain.py."""
    step, words = PLANTED[name]
    changes = next(each.changes for each in known(step) if each.words == words)

    def make():
        return module(whole([(step, changes)])).Transformer(SOURCE, TARGET, WIDTH, HEADS, 2, 16, 0)

    FAULTY[name] = Fault(make, set(properties), dict(VOCABULARIES))


def in_words(name: str) -> str:
    """The name of a mistake, as one says it."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=A)(?=[A-Z])|_", " ", name).lower()
    return re.sub(r"\b(torch|one sentence)s\b", r"\1's", words).replace("cross a", "cross-a")


# --- It does not run ----------------------------------------------------------------------------


@faulty("runs")
class TheOutputHasTheWidthOfTheModel(Healthy):  # erratum 20
    def __init__(self):
        super().__init__()
        self.output = nn.Linear(WIDTH, WIDTH)


@faulty("runs")
class ItAlsoReturnsAttentionMaps(Healthy):
    def forward(self, source, target):
        return super().forward(source, target), []


@faulty("runs")
class TheBatchComesSecond(Healthy):
    def forward(self, source, target):
        return super().forward(source, target).transpose(0, 1)


@faulty("runs")
class AnAttributeThatIsMissing(Healthy):  # erratum 1
    def forward(self, source, target):
        return super().forward(source, target) + self.bias


@faulty("runs")
class AWordInsteadOfLogits(Healthy):
    def forward(self, source, target):
        return super().forward(source, target).argmax(-1)


planted("AMaskWithoutItsDiagonal", "runs")


@faulty("runs")
class TorchsMaskTheOtherWayRound(Torch):
    """True means "hidden" there, so the last word may look at nothing."""

    def blocked(self, n):
        return ~super().blocked(n)


# --- It does not repeat itself ------------------------------------------------------------------


@faulty("repeats")
class DropoutThatIsNeverTold(Healthy):
    """F.dropout keeps dropping unless it is told that this is no training."""

    def encode(self, source):
        return F.dropout(super().encode(source), 0.1)


@faulty("repeats")
class DropoutInAList(Healthy):
    """`.eval()` does not reach it."""

    def __init__(self):
        super().__init__()
        self.extras = [nn.Dropout(0.1)]

    def encode(self, source):
        return self.extras[0](super().encode(source))


@faulty("repeats")
class AMaskThatWritesIntoItsInput(Healthy):  # erratum 15, in a tensor that is kept
    def __init__(self):
        super().__init__()
        self.register_buffer("shared", torch.ones(SOURCE, dtype=torch.bool))

    def source_mask(self, source):
        mask = self.shared[: source.shape[1]]
        mask &= (source != 0).all(0)
        return mask[None, None, None, :]


@faulty("repeats")
class AnOutputThatDependsOnACounter(Healthy):
    """Even the same random numbers do not give the same answer."""

    calls = 0

    def forward(self, source, target):
        type(self).calls += 1
        return super().forward(source, target) * (1 + type(self).calls % 3)


@faulty("repeats", "source", "gradient")
class AMemoryKeptFromTheFirstCall(Healthy):
    """Whatever was encoded first is translated from then on."""

    memory = None

    def encode(self, source):
        if self.memory is None:
            self.memory = super().encode(source).detach()
        return self.memory[: len(source), : source.shape[1]]


@faulty("repeats")
class ItWritesIntoTheTokens(Healthy):
    """The caller finds other tokens afterwards."""

    def forward(self, source, target):
        target.clamp_(min=1)
        return super().forward(source, target)


@faulty("repeats")
class AnotherPathWithoutGradients(Healthy):
    """Under torch.no_grad() the encoder computes something else."""

    def encode(self, source):
        return super().encode(source) * (1.0 if torch.is_grad_enabled() else 1.1)


# --- It sees the future -------------------------------------------------------------------------


@faulty("causality")
class NoCausalMask(Healthy):
    def target_mask(self, target, layer):
        return (target != 0)[:, None, None, :]


@faulty("causality", "padding")
class TorchWithoutATargetMask(Torch):
    def blocked(self, n):
        return None


@faulty("causality", "padding")
class ACausalMaskShiftedByOne(Healthy):
    def causal(self, n):
        return torch.ones(n, n, dtype=torch.bool).tril(1)


@faulty("causality", "padding")
class ACausalMaskInTheFirstLayerOnly(Healthy):
    def target_mask(self, target, layer):
        return self.causal(target.shape[1]) | (layer > 0)


@faulty("causality", "padding")
class ACausalMaskInTheLastLayerOnly(Healthy):
    def target_mask(self, target, layer):
        return self.causal(target.shape[1]) | (layer == 0)


@faulty("causality", "padding")
class ACausalMaskInTrainingOnly(Healthy):  # erratum 18
    def target_mask(self, target, layer):
        return self.causal(target.shape[1]) | (not self.training)


class Finite(Attention):
    hidden = -1e9


@faulty("causality", "padding")
class AFiniteMaskWithoutItsDiagonal(Healthy):
    """The first word may look at nothing, and so attends to everything equally."""

    attention = Finite

    def causal(self, n):
        return torch.ones(n, n, dtype=torch.bool).tril(-1)


@faulty("causality", "padding")
class AMaskOfTheWrongPolarity(Healthy):  # erratum 11
    """The last word may look at nothing and so looks at everything; the others see later words."""

    attention = Finite

    def causal(self, n):
        return ~super().causal(n)


@faulty("causality", "own words", "padding")
class ACausalMaskUpsideDown(Healthy):
    def causal(self, n):
        return super().causal(n).t()


planted("AHiddenScoreOfNearlyZero", "causality", "padding")


@faulty("causality")
class ASummaryOfTheWholeTarget(Healthy):
    """The mean of all target words is added to each."""

    def embed_target(self, target, start=0):
        x = super().embed_target(target, start)
        real = (target != 0)[..., None]
        return x + (x * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)


planted("ASoftmaxOverTheQueries", "causality", "padding")
planted("ASoftmaxOverTheBatch", "causality", "padding")
planted("HeadsThatAreCutOutOfPositions", "causality", "padding")


class OverTime(nn.Module):
    def forward(self, x):
        return (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + 1).sqrt()


@faulty("causality", "padding")
class ANormOverTime(Healthy):
    def norm(self):
        return OverTime()


class BatchNorm(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


@faulty("causality", "padding")
class ANormOverTheBatch(Healthy):
    def norm(self):
        return BatchNorm(WIDTH, track_running_stats=False)


@faulty("causality")
class ANormOverTheBatchInTraining(Healthy):
    """In evaluation it uses what it remembers, and looks innocent."""

    def norm(self):
        return BatchNorm(WIDTH)


# --- It does not see what it should -------------------------------------------------------------


planted("ATargetThatIsShiftedTwice", "own words")


@faulty("own words")
class ItReadsItsOwnGuessesOnly(Healthy):  # erratum 21
    """As in generation: the target that it is given is not read."""

    def forward(self, source, target):
        written = target[:, :1]
        for _ in range(1, target.shape[1]):
            words = super().forward(source, written)[:, -1:].argmax(-1)
            written = torch.cat([written, words], dim=1)
        return super().forward(source, written)


@faulty("own words", "gradient")
class ADecoderThatLooksAtItsOwnWordOnly(Healthy):
    def causal(self, n):
        return torch.eye(n, dtype=torch.bool)


planted("CrossAttentionWithoutItsResidual", "own words")
planted("NoCrossAttention", "source", "gradient")
planted("CrossAttentionThatReadsTheTarget", "source", "gradient")


@faulty("source")
class CrossAttentionUnderTheCausalMask(Healthy):
    def memory_mask(self, source, target):
        ones = torch.ones(target.shape[1], source.shape[1], dtype=torch.bool)
        return self.source_mask(source) & ones.tril()


planted("NoPositionsInTheEncoder", "order")
planted("NoPositionsInTheDecoder", "order")


@faulty("order")
class OnePositionForAllSourceWords(Healthy):
    def embed_source(self, source):
        return self.source_words(source) * math.sqrt(WIDTH) + self.table[3]


@faulty("order")
class PositionsSharedByTwoWords(Healthy):
    def embed_source(self, source):
        places = self.table.repeat_interleave(2, dim=0)[: source.shape[1]]
        return self.source_words(source) * math.sqrt(WIDTH) + places


planted("PositionsThatGoDownTheBatch", "order", "padding")


# --- Padding and neighbours ---------------------------------------------------------------------


@faulty("padding")
class SourcePaddingIsSeenByTheEncoder(Healthy):
    def encode(self, source):
        x = self.embed_source(source)
        for layer in self.encoder:
            x = layer(x, x, torch.ones(1, 1, dtype=torch.bool))
        return x


planted("SourcePaddingIsSeenInCrossAttention", "padding")


@faulty("padding")
class TorchThatSeesPaddingInCrossAttention(Torch):
    hides_padding_across = False


planted("AnotherTokenForPadding", "padding")
planted("OneSentencesPaddingForAll", "padding")


@faulty("padding")
class LengthsCountedFromTheWrongSide(Healthy):
    def source_mask(self, source):
        places = torch.arange(source.shape[1]).flip(0)
        return (places < (source != 0).sum(1, keepdim=True))[:, None, None, :]


class Repeated(Attention):
    """Heads go into the batch, and the masks are repeated in the other order."""

    def forward(self, x, memory, mask):
        scores = self.scores(x, memory)
        full = mask.expand(len(x), 1, *scores.shape[2:])[:, 0].repeat(HEADS, 1, 1)
        hidden = ~full.view(scores.shape)
        weights = scores.masked_fill(hidden, self.hidden).softmax(-1)
        return self.output(self.merge(weights @ self.split(self.value(memory))))


@faulty("padding")
class AMaskOfAnotherSentence(Healthy):
    attention = Repeated


@faulty("padding")
class OneSqueezeTooMany(Healthy):
    """It runs, until a batch holds one sentence."""

    def encode(self, source):
        return super().encode(source).squeeze()

    def decode(self, target, memory, memory_mask):
        return super().decode(target, memory.view(-1, memory.shape[1], WIDTH), memory_mask)


@faulty("padding", "gradient")
class NothingToLookAtForPadding(Healthy):
    """A padded word may look at no word, so its output is NaN, and so are all gradients."""

    def target_mask(self, target, layer):
        real = target != 0
        return (self.causal(target.shape[1]) & real[:, :, None])[:, None]


@faulty("padding", "gradient")
class DivisionByZero(Healthy):
    """Only outputs that no loss uses are infinite, and yet every gradient is NaN."""

    def forward(self, source, target):
        return super().forward(source, target) / (target != 0)[..., None]


# --- It does not learn --------------------------------------------------------------------------


@faulty("gradient")
class ADetachedMemory(Healthy):
    def encode(self, source):
        return super().encode(source).detach()


@faulty("gradient")
class NoGradientsInALayer(Healthy):
    def encode(self, source):
        with torch.no_grad():
            return super().encode(source)


@faulty("gradient")
class ALayerThatIsNeverCalled(Healthy):
    def __init__(self):
        super().__init__()
        self.last_norm = nn.LayerNorm(WIDTH)


@faulty("gradient")
class ABranchMultipliedByZero(Healthy):
    """A layer that is computed but has no effect."""

    def __init__(self):
        super().__init__()
        self.branch = nn.Linear(WIDTH, WIDTH, bias=False)

    def encode(self, source):
        x = super().encode(source)
        return x + 0.0 * self.branch(x)


@faulty("gradient")
class WrittenIntoAfterUse(Healthy):
    """A tensor that the backward pass needs is overwritten, so there is no backward pass."""

    def encode(self, source):
        x = super().encode(source).exp()
        x *= (source != 0)[..., None]
        return x


@faulty("registered")
class LayersInAList(Healthy):  # erratum 17
    def __init__(self):
        super().__init__()
        layers = list(self.encoder)
        del self.encoder
        self.encoder = layers


@faulty("registered")
class LayersInADictInATuple(Healthy):
    def __init__(self):
        super().__init__()
        layers = list(self.encoder)
        del self.encoder
        self.parts = ({"layers": layers}, "encoder")

    @property
    def encoder(self):
        return self.parts[0]["layers"]

    @encoder.setter
    def encoder(self, layers):
        self._modules["encoder"] = layers

    @encoder.deleter
    def encoder(self):
        del self._modules["encoder"]


@faulty("registered")
class ATableThatIsNoBuffer(Healthy):  # erratum 17
    def __init__(self):
        super().__init__()
        table = self.table
        del self.table
        self.table = table


@faulty("registered")
class ATrainedTensorThatIsNoParameter(Healthy):
    def __init__(self):
        super().__init__()
        self.bias = torch.zeros(TARGET, requires_grad=True)

    def forward(self, source, target):
        return super().forward(source, target) + self.bias


@faulty("registered")
class ATrainedBuffer(Healthy):
    def __init__(self):
        super().__init__()
        self.table.requires_grad_()


@faulty("registered")
def a_layer_that_only_a_function_holds():
    model, extra = Healthy(), nn.Linear(WIDTH, WIDTH)
    encode = model.encode
    model.encode = lambda source: extra(encode(source))
    return model


TIED = [("target_words.weight", "output.weight")]


@faulty("tied")
class CopiedAndNotTied(Healthy):
    def __init__(self):
        super().__init__()
        self.output.weight = nn.Parameter(self.target_words.weight.detach().clone())


@faulty("tied", tied=TIED)
class TiedAndThenMadeAnew(Healthy):
    def __init__(self):
        super().__init__()
        self.output.weight = self.target_words.weight
        self.output = nn.Linear(WIDTH, TARGET)


# --- Word by word -------------------------------------------------------------------------------


@faulty("cached", step=lambda *given: step(*given, start=lambda time: 0))
class EveryStepAtTheFirstPosition(Healthy):  # erratum 19
    pass


@faulty("cached", step=lambda *given: step(*given, grows=lambda layer: layer == 0))
class ACacheThatDoesNotGrow(Healthy):
    pass


@faulty("cached")
def ours_with_every_step_at_the_first_position():  # erratum 19
    sizes = {"d_model": 16, "n_heads": 4, "n_layers": 2, "d_ff": 32}
    model = Transformer(TransformerConfig(**VOCABULARIES, **sizes))
    embed = model.target_embedding.forward
    model.target_embedding.forward = lambda tokens, start=0: embed(tokens)
    return model


class Remembering:
    """Encodes once, and never again."""

    def __init__(self):
        self.memory = {}

    def __call__(self, model, source, target):
        return step(model, source, target, encode=self.of(model))

    def of(self, model):
        return lambda source: self.memory.setdefault(id(model), model.encode(source))


@faulty("cached", step=Remembering())
class AMemoryOfOtherSentences(Healthy):
    pass


@faulty("cached", step=lambda model, source, target: step(model, source, target)[:, 1:])
class OneStepTooFew(Healthy):
    pass
