"""`unmasked.check` finds what is wrong with a model, accuses no other, and leaves it as it was."""

# ruff: noqa: ARG002 (the variants take what the model takes that they vary)

import copy
import math
import random
import re
import warnings
from collections import deque
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import unmasked
from helpers import DEVICES, MODELS, small_config, small_model
from unmasked import Transformer, check
from unmasked.checking.probe import Probe, Scale, Words, apart, can_be_said
from unmasked.checking.registered import inside
from unmasked.checking.report import CLAIMS, Finding, Report, listed
from unmasked.checking.state import precisely, undisturbed
from unmasked.masks import causal_mask
from unmasked_book.faulty import (
    FAULTY,
    HEADS,
    SOURCE,
    TARGET,
    TIED,
    VOCABULARIES,
    WIDTH,
    Attention,
    Healthy,
    Layer,
    Torch,
    in_words,
    step,
)

# --- Healthy models, of many kinds --------------------------------------------------------------


class Lstm(nn.Module):
    """Packed encoder in both directions, a decoder with attention, log-probabilities."""

    def __init__(self):
        super().__init__()
        self.source_words, self.target_words = (nn.Embedding(n, WIDTH) for n in (SOURCE, TARGET))
        self.encoder = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True, bidirectional=True)
        self.decoder = nn.LSTM(WIDTH, 2 * WIDTH, batch_first=True)
        self.output = nn.Linear(4 * WIDTH, TARGET)

    def forward(self, source, target):
        real = source != 0
        packed = nn.utils.rnn.pack_padded_sequence(
            self.source_words(source), real.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        rows, (state, _) = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(
            rows, batch_first=True, total_length=source.shape[1]
        )
        state = torch.cat([state[-2], state[-1]], dim=-1)[None]
        x, _ = self.decoder(self.target_words(target), (state, torch.zeros_like(state)))
        weights = (x @ memory.transpose(1, 2)).masked_fill(~real[:, None], -math.inf).softmax(-1)
        return self.output(torch.cat([x, weights @ memory], dim=-1)).log_softmax(-1)


class Steps(nn.Module):
    """Cell by cell: each step's attention comes from one small network, called again each time."""

    def __init__(self):
        super().__init__()
        self.source_words, self.target_words = (nn.Embedding(n, WIDTH) for n in (SOURCE, TARGET))
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.cell = nn.GRUCell(2 * WIDTH, WIDTH)
        self.key, self.query = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.covered = nn.Linear(1, WIDTH, bias=False)  # how much each word has had so far
        self.score, self.output = nn.Linear(WIDTH, 1, bias=False), nn.Linear(2 * WIDTH, TARGET)

    def forward(self, source, target):
        memory, _ = self.encoder(self.source_words(source))
        state = context = torch.zeros(len(source), WIDTH)
        covered, outputs = torch.zeros(source.shape), []
        for word in self.target_words(target).unbind(1):
            state = self.cell(torch.cat([word, context], dim=-1), state)
            hidden = (
                self.key(memory) + self.query(state)[:, None] + self.covered(covered[..., None])
            )
            scores = self.score(hidden.tanh())[..., 0].masked_fill(source == 0, -math.inf)
            covered = covered + scores.softmax(-1)
            context = (scores.softmax(-1)[:, None] @ memory)[:, 0]
            outputs.append(self.output(torch.cat([state, context], dim=-1)))
        return torch.stack(outputs, dim=1)


class Convolutions(Healthy):
    """Both sides are convolutions, the decoder's padded on the left only."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList(nn.Conv1d(WIDTH, 2 * WIDTH, 3, padding=1) for _ in range(2))
        self.decoder = nn.ModuleList(nn.Conv1d(WIDTH, 2 * WIDTH, 3) for _ in range(2))

    def forward(self, source, target):
        real = (source != 0)[:, None]
        x, y = self.embed_source(source).transpose(1, 2) * real, self.embed_target(target)
        for layer in self.encoder:
            x = (x + F.glu(layer(x), 1)) * real
        for layer in self.decoder:
            z = F.glu(layer(F.pad(y.transpose(1, 2), (2, 0))), 1).transpose(1, 2)
            weights = (z @ x).masked_fill(~real, -math.inf).softmax(-1)
            y = y + z + weights @ x.transpose(1, 2)
        return self.output(y)


class PerHead(nn.Module):
    """Each head has layers of its own, in a ModuleList."""

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(WIDTH, WIDTH // HEADS) for name in ("q", "k", "v")})
            for _ in range(HEADS)
        )
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, memory, mask):
        hidden = ~mask[:, 0] if mask.dim() == 4 else ~mask
        found = []
        for head in self.heads:
            scores = head["q"](x) @ head["k"](memory).transpose(1, 2)
            found.append(scores.masked_fill(hidden, -math.inf).softmax(-1) @ head["v"](memory))
        return self.output(torch.cat(found, dim=-1))


class WithHeads(Healthy):
    attention = PerHead


class KeyBiasOnly(Attention):
    def __init__(self):
        super().__init__()
        for layer in (self.query, self.value, self.output):
            layer.bias = None


class WithKeyBiasOnly(Healthy):
    attention = KeyBiasOnly


class Bare(Healthy):
    def embed_source(self, source):
        return self.source_words(source) * math.sqrt(WIDTH)

    def embed_target(self, target, start=0):
        return self.target_words(target) * math.sqrt(WIDTH)


def distances(scores):  # [..., Q, K] → [Q, K], of keys from queries
    return torch.arange(scores.shape[-1]) - torch.arange(scores.shape[-2])[:, None]


class Rotary(Attention):
    """Queries and keys are turned by their position; of the values nothing tells where they are."""

    def turned(self, x):
        angle = torch.arange(x.shape[-2])[:, None] * torch.tensor([1.0, 0.01])
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = [even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()]
        return torch.stack(turned, dim=-1).flatten(-2)

    def scores(self, x, memory):
        q, k = self.split(self.query(x)), self.split(self.key(memory))
        q, k = (self.turned(q), self.turned(k)) if x is memory else (q, k)
        return q @ k.transpose(2, 3) / 2


class WithRotary(Bare):
    attention = Rotary


class Slopes(Attention):
    """What is far away scores less."""

    def scores(self, x, memory):
        scores = super().scores(x, memory)
        slopes = torch.tensor([0.5, 0.1])[:, None, None]
        return scores - slopes * distances(scores).abs() if x is memory else scores


class WithSlopes(Bare):
    attention = Slopes

    def embed_source(self, source):
        return Healthy.embed_source(self, source)


class Relative(Attention):
    """A trained number for each distance."""

    std = 0.02

    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(16, HEADS)
        nn.init.normal_(self.bias.weight, std=self.std)

    def scores(self, x, memory):
        scores = super().scores(x, memory)
        places = distances(scores).clamp(-8, 7) + 8
        return scores + self.bias(places).permute(2, 0, 1)


class WithRelative(Bare):
    attention = Relative


class KeepsMaps(Attention):
    def scores(self, x, memory):
        self.maps = [super().scores(x, memory)]
        return self.maps[0]


class WithMaps(Healthy):
    """What an earlier call has left behind is no part of the model."""

    attention = KeepsMaps

    def __init__(self):
        super().__init__()
        with torch.no_grad():
            self(torch.full((2, 7), 3), torch.full((2, 5), 3))


class RemembersItsMask(Healthy):
    mask = None

    def causal(self, n):
        if self.mask is None or len(self.mask) < n:
            self.mask = super().causal(n)
        return self.mask[:n, :n]


class PositionsOfRealWords(Healthy):
    """Positions are counted, and padding has none."""

    def embed_source(self, source):
        places = (source != 0).cumsum(1) * (source != 0)
        return self.source_words(source) * math.sqrt(WIDTH) + self.table[places]


class ForbidsPadding(Healthy):
    def forward(self, source, target):
        logits = super().forward(source, target)
        logits[..., 0] = -math.inf
        return logits.log_softmax(-1)


class Shared(Healthy):
    """The same layer over and over."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList([self.encoder[0]] * 3)
        self.decoder = nn.ModuleList([self.decoder[0]] * 3)


class Teacher(Healthy):
    """It keeps a copy of itself that is not trained."""

    def __init__(self):
        super().__init__()
        self.teacher = copy.deepcopy(self).requires_grad_(False)


class Baggage(Healthy):
    """What a module may hold without harm."""

    def __init__(self):
        super().__init__()
        self.activations = {"relu": nn.ReLU(), "more": (nn.Identity(),)}
        self.again = [self.encoder[0], {"weight": self.output.weight}, self.table, self]
        self.again.append(self.again)
        self.number, self.nothing = torch.tensor(2.0), torch.empty(0)
        self.names = {"words": {"a": 0, "b": 1}, "seen": {1, 2}, "none": None}


class SquareNormed(Healthy):
    """Old weight normalisation keeps a computed tensor where the parameter was."""

    def __init__(self):
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.output = nn.utils.weight_norm(self.output)


class Renormed(Healthy):
    """Its forward writes into its weights."""

    def __init__(self):
        super().__init__()
        self.source_words = nn.Embedding(SOURCE, WIDTH, max_norm=1.0)


class NormedSource(Healthy):
    """A batch norm of the source tells nothing of the target."""

    def __init__(self):
        super().__init__()
        self.batch_norm = nn.BatchNorm1d(WIDTH)

    def encode(self, source):
        return self.batch_norm(super().encode(source).transpose(1, 2)).transpose(1, 2)


class TrainsToALoss(Healthy):
    def forward(self, source, target):
        logits = super().forward(source, target)
        return logits.mean() if self.training else logits


class Checkpointed(Healthy):
    def encode(self, source):
        mask, x = self.source_mask(source), self.embed_source(source)
        for layer in self.encoder:
            x = checkpoint(layer, x, x, mask, use_reentrant=False)
        return x


class Pointer(Healthy):
    """It may copy a word of the source: logarithms of mixed probabilities."""

    def forward(self, source, target):
        memory = self.encode(source)
        x = self.decode(target, memory, self.source_mask(source))
        weights = (x @ memory.transpose(1, 2)).masked_fill(~self.source_mask(source)[:, 0], -1e9)
        said = self.output(x).softmax(-1)
        places = source[:, None].expand(-1, target.shape[1], -1)
        return said.scatter_add(2, places, weights.softmax(-1)).log()


class LinearLayer(Layer):
    """The decoder's own attention without softmax: running sums instead of a mask."""

    def forward(self, x, past, mask, memory=None, memory_mask=None):
        if memory is None:
            return super().forward(x, past, mask)
        q, k = (F.elu(layer(x)) + 1 for layer in (self.own.query, self.own.key))
        sums = (k[..., None] * self.own.value(x)[..., None, :]).cumsum(1)
        y = (q[..., None, :] @ sums)[..., 0, :] / (q * k.cumsum(1)).sum(-1, keepdim=True)
        x = self.norms[0](x + self.own.output(y))
        x = self.norms[2](x + self.across(x, memory, memory_mask))
        return self.norms[1](x + self.feed_forward(x))


class WithLinearAttention(Healthy):
    layer = LinearLayer


class NoGraphInEvaluation(Healthy):
    def forward(self, source, target):
        with torch.set_grad_enabled(self.training):
            return super().forward(source, target)


def in_training():
    model = Healthy().train()
    model.decoder[0].eval()
    return model


def half_frozen():
    model = Healthy()
    model.encoder.requires_grad_(False)
    return model


def tied(model):
    model.output.weight = model.target_words.weight
    return model


def ours(**options):
    return lambda: Transformer(small_config(**options))


class SecondBatch(Healthy):
    """Sentences stand in columns."""

    def forward(self, sentences):
        source, target = sentences
        return {"logits": super().forward(source.t(), target.t()).transpose(0, 1)}


def columns(model, source, target):
    return model((source.t(), target.t()))["logits"].transpose(0, 1)


OPTIONS = {
    "post-norm": {},
    "pre-norm": {"norm_first": True},
    "batch second": {"batch_first": False},
    "pre-norm, batch second, no bias": {"norm_first": True, "batch_first": False, "bias": False},
    "no bias": {"bias": False},
    "gelu by name": {"activation": "gelu"},
    "gelu as a module": {"activation": nn.GELU()},
}
HEALTHY = {
    "ours in plain torch": (Healthy, VOCABULARIES | {"step": step}),
    **{
        f"nn.Transformer, {name}": (lambda options=options: Torch(**options), VOCABULARIES)
        for name, options in OPTIONS.items()
    },
    **{f"preset {name}": (ours(preset=name), {}) for name in MODELS},
    "12 layers, pre-norm": (ours(norm="pre", n_layers=12), {}),
    "12 layers, post-norm": (ours(n_layers=12), {}),
    "learned positions": (ours(positions="learned", max_len=12), {}),
    "convolutional feed-forward": (ours(feed_forward="conv"), {}),
    "three matrices tied": (ours(tie_embeddings=True), {}),
    "two matrices tied": (ours(tie_embeddings="output"), {}),
    "no bias": (ours(bias=False), {}),
    "float64": (small_model, {}),
    "bfloat16": (lambda: Transformer(small_config()).bfloat16(), {}),
    "float16": (lambda: Transformer(small_config()).half(), {}),
    "de-en": (lambda: unmasked.load("de-en").model, {}),
    "en-de": (lambda: unmasked.load("en-de").model, {}),
    "en-de in bfloat16": (lambda: unmasked.load("en-de").model.bfloat16(), {}),
    "log-probabilities of ours": (
        ours(),
        {"forward": lambda model, source, target: model(source, target).log_softmax(-1)},
    ),
    "tied by hand": (lambda: tied(Healthy()), VOCABULARIES | {"tied": TIED}),
    "batch and words in other places": (SecondBatch, VOCABULARIES | {"forward": columns}),
    "other padding": (
        lambda: type("Other", (Healthy,), {"source_mask": lambda _, s: (s != 4)[:, None, None]})(),
        VOCABULARIES | {"padding": 4},
    ),
    "half frozen": (half_frozen, VOCABULARIES),
    "in training": (in_training, VOCABULARIES),
    **{
        kind.__name__: (kind, VOCABULARIES)
        for kind in (
            *(Lstm, Steps, Convolutions, WithHeads, WithKeyBiasOnly, WithRotary, WithSlopes),
            *(WithRelative, WithMaps, RemembersItsMask, PositionsOfRealWords, ForbidsPadding),
            *(Shared, Teacher, Baggage, SquareNormed, Renormed, NormedSource, TrainsToALoss),
            *(Checkpointed, Pointer, WithLinearAttention, NoGraphInEvaluation),
        )
    },
}


def test_there_are_57_healthy_models():
    assert len(HEALTHY) == 57


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_model_is_accused_of_nothing(name, seed):
    torch.manual_seed(seed)
    make, options = HEALTHY[name]
    model = make()
    report = check(model, quiet=True, **options)
    assert report.faults == ()
    assert [finding.property for finding in report.findings] == list(CLAIMS)
    notes = {finding.property for finding in report.findings if finding.verdict == "note"}
    half = "float16" in name  # "bfloat16" too: what changes places may be lost in rounding
    assert notes <= ({"gradient", "order"} if half else {"gradient"})
    cached = "step" in options or (isinstance(model, Transformer) and "forward" not in options)
    assert report["cached"].verdict == ("passed" if cached else "not offered")


@pytest.mark.parametrize("device", DEVICES)
def test_it_runs_where_the_model_is(device):
    assert check(Transformer(small_config()).to(device), quiet=True).ok
    report = check(Lstm().to(device), quiet=True, **VOCABULARIES)
    assert report.ok
    assert report["gradient"].verdict == "passed"


def test_what_needs_no_gradient_is_not_asked_for_one():
    report = check(Healthy().requires_grad_(False), quiet=True, **VOCABULARIES)
    assert report.ok
    assert report["gradient"].verdict == "not offered"


def test_the_smallest_vocabulary_is_enough():
    model = Healthy()
    model.source_words, model.target_words = nn.Embedding(4, WIDTH), nn.Embedding(4, WIDTH)
    model.output = nn.Linear(WIDTH, 4)
    assert check(model, source_vocab=4, target_vocab=4, quiet=True).ok


# --- Faulty ones --------------------------------------------------------------------------------


@cache
def variant(name):
    make, _, options = FAULTY[name]
    return check(make(), quiet=True, **options)


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_is_found_and_no_other(name):
    report = variant(name)
    assert {finding.property for finding in report.faults} == FAULTY[name].properties
    assert not report.ok
    assert all(finding.what and finding.advice for finding in report.faults)


def faults(model, **options):
    return {finding.property: finding for finding in check(model, quiet=True, **options).faults}


SEEN = {
    ("ItAlsoReturnsAttentionMaps", "runs"): r"no floating-point tensor but tuple$",
    ("AWordInsteadOfLogits", "runs"): r"no floating-point tensor but torch.int64$",
    ("TheBatchComesSecond", "runs"): r"shape \[5, 11, 17\] instead of \[11, 5, 17\]; it was given",
    ("AMaskWithoutItsDiagonal", "runs"): r"^output\[0\] of sentence 0 is not finite$",
    ("AnotherPathWithoutGradients", "repeats"): r"^with gradients the outputs differ by [\d.]+ ",
    ("ItWritesIntoTheTokens", "repeats"): r"writes into the tokens",
    ("ACausalMaskShiftedByOne", "causality"): (
        r"^output\[0\] moves by [\d.]+ when target\[1\] changes \(7 of 10 pairs"
    ),
    ("ANormOverTheBatchInTraining", "causality"): r"moves by [\d.]+ in training mode when ",
    ("ATargetThatIsShiftedTwice", "own words"): (
        r"^output\[0\] stays the same when target\[0\] changes \(5 of 15 such pairs\)$"
    ),
    ("CrossAttentionWithoutItsResidual", "own words"): (
        r"^output\[0\] stays the same when target\[0\] changes \(15 of 15 such pairs\)$"
    ),
    ("NoCrossAttention", "source"): r"^output\[0\] stays the same when source\[0\] .*\(35 of 35 ",
    ("CrossAttentionUnderTheCausalMask", "source"): (
        r"^output\[0\] does not read row 1 of what decoder.1.across.value returns, others do$"
    ),
    ("PositionsSharedByTwoWords", "order"): r"source\[0\] and source\[1\] change places$",
    ("NoPositionsInTheDecoder", "order"): r"the decoder has no positions$",
    ("SourcePaddingIsSeenInCrossAttention", "padding"): r"behind the source, output\[0\] moves by",
    ("NothingToLookAtForPadding", "padding"): r"behind the target, output\[0\] is not finite$",
    ("DivisionByZero", "padding"): r"^outputs at the target's own padding are not finite$",
    ("OneSentencesPaddingForAll", "padding"): r"than 4 and 5 words, output\[3\] moves by [\d.]+$",
    ("OneSqueezeTooMany", "padding"): r"^RuntimeError: shape ",
    ("ADetachedMemory", "gradient"): r": source_words.weight, encoder.* and 30 more$",
    ("NothingToLookAtForPadding", "gradient"): r"^not finite: the gradient of ",
    ("ABranchMultipliedByZero", "gradient"): r"^zero everywhere: the gradient of branch.weight$",
    ("WrittenIntoAfterUse", "gradient"): r"^backward: RuntimeError: .* by an inplace operation",
    ("LayersInAList", "registered"): r": encoder\[0\], encoder\[1\]$",
    ("LayersInADictInATuple", "registered"): r": parts\[0\]\['layers'\]\[0\], parts",
    ("ATrainedBuffer", "registered"): r": table$",
    ("a_layer_that_only_a_function_holds", "registered"): r": a tensor of shape \[8, 8\], a tens",
    ("CopiedAndNotTied", "tied"): r"not tied: target_words.weight and output.weight$",
    ("TiedAndThenMadeAnew", "tied"): r"^two tensors each: target_words.weight and output.weight$",
    ("EveryStepAtTheFirstPosition", "cached"): r"^computed word by word, output\[1\] moves by ",
    ("AMemoryOfOtherSentences", "cached"): r"^computed word by word, output\[0\] moves by ",
}


@pytest.mark.parametrize(("name", "place"), SEEN)
def test_what_was_seen_is_said(name, place):
    assert re.search(SEEN[name, place], variant(name)[place].what)


def test_nothing_is_compared_where_two_calls_differ():
    report = variant("AnOutputThatDependsOnACounter")
    silent = {finding.property for finding in report.findings if finding.verdict == "not offered"}
    assert silent == {"causality", "own words", "source", "order", "padding", "cached"}
    report = variant("DropoutThatIsNeverTold")  # the same random numbers give the same answer
    silent = {finding.property for finding in report.findings if finding.verdict == "not offered"}
    assert silent == {"padding", "cached"}
    assert report["causality"].verdict == "passed"


def test_a_leak_is_found_through_noise():
    class Leaky(Healthy):
        def encode(self, source):
            return F.dropout(super().encode(source), 0.1)

        def causal(self, n):
            return super().causal(n) | True

    assert set(faults(Leaky(), **VOCABULARIES)) == {"repeats", "causality"}


def test_a_word_that_may_never_be_said_is_no_fault_and_one_row_of_infinities_is():
    class Silent(Healthy):
        def forward(self, source, target):
            logits = super().forward(source, target)
            logits[:, 2] = -math.inf
            return logits

    assert set(faults(Silent(), **VOCABULARIES)) == {"runs"}

    class Mute(Healthy):
        def forward(self, source, target):
            return super().forward(source, target) - math.inf

    assert set(faults(Mute(), **VOCABULARIES)) == {"runs"}


def test_what_fails_with_gradients_only_is_told_where_they_are_asked_for():
    class Graphless(Healthy):
        def encode(self, source):
            return torch.from_numpy(super().encode(source).numpy())

    found = faults(Graphless(), **VOCABULARIES)
    assert set(found) == {"repeats", "padding", "gradient", "registered"}
    assert all("RuntimeError: Can't call numpy()" in fault.what for fault in found.values())


def test_half_precision_still_finds_what_can_be_found():
    """The order of words is lost to it, unless nothing at all moves."""
    for name in ("NoCausalMask", "NoCrossAttention", "SourcePaddingIsSeenInCrossAttention"):
        make, expected, options = FAULTY[name]
        assert set(faults(make().bfloat16(), **options)) == expected
    model = Transformer(small_config(n_layers=1))
    model.source_embedding.positions = nn.Identity()
    model.source_embedding.positions.forward = lambda x, start: x
    assert set(faults(model.bfloat16())) == {"order"}


# --- Notes --------------------------------------------------------------------------------------


def notes(model, **options):
    report = check(model, quiet=True, **options)
    assert report.ok
    return {finding.property: finding for finding in report.findings if finding.verdict == "note"}


def test_the_bias_of_a_key_gets_no_gradient_and_is_no_fault():
    found = notes(Transformer(small_config(n_layers=1)))["gradient"]
    expected = "encoder.layers.0.self_attention.key.bias, decoder.layers.0.self_attention.key.bias"
    assert found.what.startswith(f"nothing but rounding comes to {expected}, ")
    assert "key's bias" in found.advice


class Silenced(Layer):
    """Each branch begins with nothing, as in ReZero."""

    def __init__(self, *given):
        super().__init__(*given)
        self.norms, self.share = nn.ModuleList(), nn.Parameter(torch.zeros(1))

    def forward(self, x, past, mask, memory=None, memory_mask=None):
        x = x + self.share * self.own(x, past, mask)
        if memory is not None:
            x = x + self.share * self.across(x, memory, memory_mask)
        return x + self.share * self.feed_forward(x)


def test_weights_that_begin_with_zero_may_hide_what_is_behind_them():
    class Rezero(Healthy):
        layer = Silenced

    found = notes(Rezero(), **VOCABULARIES)
    assert set(found) == {"own words", "source", "order", "gradient"}
    assert found["source"].advice.startswith(
        "encoder.0.share, encoder.1.share, decoder.0.share and"
    )
    assert found["gradient"].what.startswith("zero everywhere: ")

    class Begins(WithRelative):
        attention = type("Zero", (Relative,), {"std": 0.0})

    assert "encoder.0.own.bias.weight" in notes(Begins(), **VOCABULARIES)["order"].advice


def test_probabilities_are_not_what_a_loss_wants():
    class Softmaxed(Healthy):
        def forward(self, source, target):
            return super().forward(source, target).softmax(-1)

    assert "probabilities" in notes(Softmaxed(), **VOCABULARIES)["runs"].what


def test_a_mask_without_its_diagonal_is_noted_where_the_first_row_is_looked_after():
    """Each word still reaches its own output, by the residual, and attention leaves it out."""

    def strictly(model, source, target):
        mask = (target != 0)[:, None, None] & causal_mask(target.shape[1]).tril(-1)
        return model(source, target, target_mask=mask)

    found = notes(Transformer(small_config()), forward=strictly)["own words"]
    assert found.what.startswith(
        "output[1] reads earlier words in what decoder.layers.1.self_atten"
    )


def test_a_word_that_hardly_moves_its_output_is_noted():
    class Deaf(Healthy):
        def forward(self, source, target):
            logits = super().forward(source, torch.full_like(target, 3))
            own = (
                F.one_hot(target, TARGET).cumsum(1).double() @ torch.linspace(0, 1, TARGET).double()
            )
            return (logits.double() + 1e-7 * own[..., None]).float()

    found = notes(Deaf(), **VOCABULARIES)
    assert re.match(
        r"target\[\d\] moves output\[\d\] by no more than rounding", found["own words"].what
    )
    assert found["order"].what == "the target words move the outputs too little to judge"


def test_layers_that_are_copies_are_noted_and_those_of_a_teacher_are_not():
    class Stack(Healthy):
        def __init__(self):
            super().__init__()
            self.encoder = nn.ModuleList(copy.deepcopy(self.encoder[0]) for _ in range(2))

    found = notes(Stack(), **VOCABULARIES)["tied"]
    assert found.what.startswith(
        "layers that begin as copies of each other: encoder.0.own.query.weight"
    )
    assert found.what.endswith(" and 3 more")


def test_two_parameters_in_one_memory_are_noted():
    model = Healthy()
    model.output.weight = nn.Parameter(model.target_words.weight.data)
    found = notes(model, **VOCABULARIES, tied=TIED)["tied"]
    assert found.what == "two parameters in one memory: target_words.weight and output.weight"


def test_an_embedding_may_be_as_wide_as_its_vocabulary():
    """Square matrices of layers are layers; the embedding's copy is still a copy."""
    model = Transformer(small_config(d_model=16, source_vocab=16, target_vocab=16))
    model.encoder.layers[0].self_attention.key.weight.data.copy_(
        model.encoder.layers[1].self_attention.key.weight
    )
    assert notes(model)["tied"].what.startswith("layers that begin")
    model.generator.weight.data.copy_(model.target_embedding.tokens.weight)
    assert set(faults(model)) == {"tied"}


def test_ours_is_untied_when_its_configuration_ties():
    model = Transformer(small_config(tie_embeddings=True))
    model.generator.weight = nn.Parameter(model.generator.weight.detach().clone())
    found = faults(model)
    assert set(found) == {"tied"}
    assert found["tied"].what == (
        "two tensors each: target_embedding.tokens.weight and generator.weight"
    )


def test_checkpoints_that_forbid_the_question_are_no_fault():
    class Reentrant(Healthy):
        def encode(self, source):
            mask, x = self.source_mask(source), self.embed_source(source)
            return checkpoint(self.encoder[0], x, x, mask, use_reentrant=True)

    model = Reentrant()
    model.encoder = model.encoder[:1]
    report = check(model, quiet=True, **VOCABULARIES)
    assert report.ok
    assert report["gradient"].verdict == "not offered"


@pytest.mark.parametrize("way", ["no module", "keyword", "detached", "frozen"])
def test_where_positions_cannot_be_looked_for_nothing_is_said(way):
    """That a deep decoder has none shows in the gradient of its embedded words alone."""

    class Odd(Bare):
        def embed_source(self, source):
            return Healthy.embed_source(self, source)

        def embed_target(self, target, start=0):
            if way == "no module":
                return F.embedding(target, self.target_words.weight)
            if way == "keyword":
                return self.target_words(input=target)
            return self.target_words(target).detach()

    model = Odd().requires_grad_(way != "frozen")
    assert set(faults(model, **VOCABULARIES)) == ({"gradient"} if way == "detached" else set())


# --- As it was ----------------------------------------------------------------------------------


class Busy(Healthy):
    """Forward changes what it can reach: weights, buffers, lists, attributes, modes."""

    stop = None

    def __init__(self):
        super().__init__()
        self.source_words = nn.Embedding(SOURCE, WIDTH, max_norm=0.5)
        self.batch_norm = nn.BatchNorm1d(WIDTH)
        self.register_buffer("calls", torch.zeros(2))
        self.history, self.seen, self.kept = [1], {1}, {"a": torch.ones(2)}
        self.last = None

    def encode(self, source):
        self.calls += 1
        self.kept["a"].mul_(2)
        self.kept["b"] = self.last = super().encode(source)
        self.history.append(len(self.history))
        self.seen.add(len(self.seen))
        self.decoder[0].training = not self.decoder[0].training
        if self.stop is not None:
            raise self.stop
        return self.batch_norm(self.last.transpose(1, 2)).transpose(1, 2)


def state_of(model):
    tensors = [(name, tensor.clone()) for name, tensor in model.state_dict().items()]
    plain = model.history[:], set(model.seen), list(model.kept), model.kept["a"].clone(), model.last
    grads = [(p.grad, None if p.grad is None else p.grad.clone()) for p in model.parameters()]
    return tensors, plain, grads, [module.training for module in model.modules()]


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b


@pytest.mark.parametrize("stop", [None, ValueError("no"), KeyboardInterrupt()])
def test_the_model_and_the_random_numbers_are_left_as_they_were(stop):
    model = Busy()
    model.train()
    model.encoder[1].eval()
    model(torch.full((2, 7), 3), torch.full((2, 5), 3)).sum().backward()
    model.history, model.last, model.stop = [1], None, stop
    del model.kept["b"]
    before, parts = state_of(model), dict(model.named_modules())
    parameters, grads = list(model.parameters()), [p.grad for p in model.parameters()]
    random = torch.get_rng_state()
    if isinstance(stop, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            check(model, quiet=True, **VOCABULARIES)
    else:
        found = faults(model, **VOCABULARIES)
        assert set(found) == ({"registered"} if stop is None else {"runs"})
    assert equal(state_of(model), before)
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert all(p.grad is grad for p, grad in zip(parameters, grads, strict=True))
    assert dict(model.named_modules()) == parts
    assert torch.equal(torch.get_rng_state(), random)


def test_a_model_in_training_keeps_its_gradients_and_its_random_numbers():
    model = Transformer(small_config(dropout=0.5)).train()
    model.decoder.layers[0].eval()
    source, target = torch.full((2, 3), 5), torch.full((2, 4), 6)
    model(source, target).sum().backward()
    grads = [(p.grad, p.grad.clone()) for p in model.parameters()]
    modes = [module.training for module in model.modules()]
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    assert check(model, quiet=True).ok
    assert torch.equal(torch.rand(3), expected)
    assert [module.training for module in model.modules()] == modes
    for parameter, (grad, numbers) in zip(model.parameters(), grads, strict=True):
        assert parameter.grad is grad
        assert torch.equal(grad, numbers)


def test_the_same_seed_gives_the_same_report():
    for name in ("Healthy", "NoCausalMask", "DropoutThatIsNeverTold"):
        model = FAULTY[name].make() if name in FAULTY else Healthy()
        first = check(model, quiet=True, **VOCABULARIES)
        torch.manual_seed(7)
        assert check(model, quiet=True, **VOCABULARIES) == first
        assert check(model, quiet=True, seed=1, **VOCABULARIES) != first


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_it_may_be_called_anywhere(mode):
    model = Healthy()
    with mode():
        assert check(model, quiet=True, **VOCABULARIES).ok


def test_float32_is_float32_while_it_is_looked_at():
    seen = set()

    def forward(model, source, target):
        seen.add((torch.get_float32_matmul_precision(), torch.backends.cudnn.enabled))
        return model(source, target)

    before = torch.backends.cudnn.enabled
    torch.set_float32_matmul_precision("medium")
    try:
        assert check(Healthy(), forward, quiet=True, **VOCABULARIES).ok
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert seen == {("highest", False)}
    assert torch.backends.cudnn.enabled == before
    with pytest.raises(KeyError), precisely():
        raise KeyError
    assert torch.get_float32_matmul_precision() == "highest"


# --- The report ---------------------------------------------------------------------------------


def test_the_report_of_a_healthy_model(capsys):
    report = check(Transformer(small_config(bias=False)))
    assert capsys.readouterr().out == f"{report}\n"
    assert (
        str(report)
        == """\
ok     runs        every output is a row of numbers, one for each word
ok     repeats     the same question gets the same answer
ok     causality   no output knows a later target word
ok     own words   every output knows the target words so far
ok     source      every output knows every source word
ok     order       words that change places change the output
ok     padding     padding and neighbours change nothing
ok     gradient    every parameter gets a gradient
ok     registered  PyTorch knows every layer and every tensor
ok     tied        what should be one matrix is one
ok     cached      word by word gives the same output
11 passed"""
    )
    assert repr(report) == "Report(11 passed)"
    assert report.ok
    assert report.faults == ()


def test_the_report_of_a_faulty_model(capsys):
    class Faulty(WithKeyBiasOnly):
        attention = type("Unbiased", (KeyBiasOnly,), {})

        def __init__(self):
            super().__init__()
            for module in self.modules():
                if isinstance(module, Attention):
                    module.key.bias = None
            self.table = self.__dict__["table"] = self._buffers.pop("table")
            self.last_norm = nn.LayerNorm(WIDTH)

    report = check(Faulty(), **VOCABULARIES)
    assert capsys.readouterr().out == f"{report}\n"
    assert (
        str(report)
        == """\
ok     runs        every output is a row of numbers, one for each word
ok     repeats     the same question gets the same answer
ok     causality   no output knows a later target word
ok     own words   every output knows the target words so far
ok     source      every output knows every source word
ok     order       words that change places change the output
ok     padding     padding and neighbours change nothing
FAULT  gradient    every parameter gets a gradient
       unused, or cut off from the loss: last_norm.weight, last_norm.bias
       look for .detach(), torch.no_grad(), .item(), or a layer that forward does not call
FAULT  registered  PyTorch knows every layer and every tensor
       not registered, or trained and no parameter: table
       use nn.ModuleList or nn.ModuleDict for layers, nn.Parameter for what is trained,
         register_buffer for tables: else optimiser, state_dict and .to(device) pass them by
ok     tied        what should be one matrix is one
-      cached      no step was given
8 passed, 2 faults, 1 not offered"""
    )
    assert repr(report) == "Report(8 passed, 2 faults, 1 not offered)"
    assert [finding.property for finding in report.faults] == ["gradient", "registered"]
    assert report["gradient"] is report.faults[0]
    assert report["cached"] == Finding("cached", "not offered", "no step was given")


def test_a_model_that_does_not_run_is_asked_no_more():
    report = variant("AnAttributeThatIsMissing")
    assert str(report).splitlines()[:5] == [
        "FAULT  runs        every output is a row of numbers, one for each word",
        "       AttributeError: 'AnAttributeThatIsMissing' object has no attribute 'bias'",
        "       it was given integers of shape [11, 7] and [11, 5]; "
        "pass forward=… if the model is to",
        "         be called in another way",
        "-      repeats     the model does not run",
    ]
    assert repr(report) == "Report(0 passed, 1 fault, 10 not offered)"


def test_quiet_prints_nothing(capsys):
    check(Healthy(), quiet=True, **VOCABULARIES)
    assert capsys.readouterr().out == ""


def test_more_than_one_note_is_counted_so():
    findings = [Finding("runs", "note", "a", "b"), Finding("repeats", "note", "c", "d")]
    assert repr(Report(tuple(findings))) == "Report(0 passed, 2 notes)"


def test_a_property_is_asked_for_by_its_name():
    with pytest.raises(
        ValueError, match=r"property: expected 'runs' or 'repeats' or .*, got 'mask'"
    ):
        check(Healthy(), quiet=True, **VOCABULARIES)["mask"]


# --- Refusals -----------------------------------------------------------------------------------


def traced():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is on its way out
        return torch.jit.trace(nn.ReLU(), torch.zeros(1))


def lazy():
    model = Healthy()
    model.output = nn.LazyLinear(TARGET)
    return model


UNKNOWN = (
    "expected the number of words, got None; "
    "pass source_vocab=… and target_vocab=…; only an unmasked.Transformer knows them"
)
FUNCTION = "expected a function of model, source and target, got"
WITHOUT = (
    "model: expected parameters that have numbers, got some without; "
    "call a lazy model once; move one from the meta device with to_empty"
)
REFUSED = [
    (
        traced,
        {},
        "model: expected modules written in Python, got a ScriptModule; "
        "check the model that it was made from: from outside, nothing in it can be watched",
    ),
    (lambda: F.relu, {}, "model: expected a Module, got function; pass one"),
    (lazy, {}, WITHOUT),
    (lambda: Healthy().to("meta"), {}, WITHOUT),
    (Healthy, {"source_vocab": None}, f"source_vocab: {UNKNOWN}"),
    (Healthy, {"target_vocab": None}, f"target_vocab: {UNKNOWN}"),
    (
        Healthy,
        {"source_vocab": 3},
        "source_vocab: expected a whole number of at least 4, got 3; pass 4 or more",
    ),
    (
        ours(),
        {"target_vocab": 0},
        "target_vocab: expected a whole number of at least 4, got 0; pass 4 or more",
    ),
    (
        Healthy,
        {"padding": -1},
        "padding: expected a whole number of at least 0, got -1; pass 0 or more",
    ),
    (
        Healthy,
        {"padding": 13},
        "padding: expected a token below source_vocab=13, got 13; "
        "name the token that fills short sentences",
    ),
    (Healthy, {"seed": -1}, "seed: expected a whole number of at least 0, got -1; pass 0 or more"),
    (
        Healthy,
        {"forward": "model"},
        f"forward: {FUNCTION} str; write forward=lambda model, source, target: …",
    ),
    (Healthy, {"step": 3}, f"step: {FUNCTION} int; write step=lambda model, source, target: …"),
    (
        Healthy,
        {"tied": TIED[0]},
        "tied: expected pairs of parameter names, got 'target_words.weight'; "
        'write tied=[("embedding.weight", "output.weight")]',
    ),
    (
        Healthy,
        {"tied": [("output.weight", "words.weight")]},
        "tied: expected names of parameters, got 'words.weight'; "
        "model.named_parameters(remove_duplicate=False) lists them",
    ),
]


@pytest.mark.parametrize(("make", "options", "message"), REFUSED)
def test_what_cannot_be_asked_is_refused(make, options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check(make(), quiet=True, **{**VOCABULARIES, **options})


# --- Its parts ----------------------------------------------------------------------------------


def test_names_are_listed_three_at_a_time():
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b, c"
    assert listed([*"abcde"]) == "a, b, c and 2 more"


def test_distances_know_infinities():
    a = torch.tensor([[[0.0, 1.0], [-math.inf, 1.0], [math.nan, 0.0], [math.inf, 0.0]]])
    b = torch.tensor([[[0.5, 3.0], [-math.inf, 1.0], [math.nan, 0.0], [1.0, 0.0]]])
    assert apart(a, b).tolist() == [[2.0, 0.0, math.inf, math.inf]]
    assert can_be_said(a).tolist() == [True, True]
    a[..., 0] = -math.inf
    assert can_be_said(a).tolist() == [False, True]


def test_coarser_numbers_may_lie_further_apart():
    answer = torch.randn(2, 5, 60, dtype=torch.float64)
    scales = [Scale(answer, torch.finfo(kind).eps) for kind in (torch.float64, torch.float32)]
    coarse = Scale(answer, torch.finfo(torch.bfloat16).eps)
    for name in ("same", "close", "swapped", "clear"):
        assert 0 < getattr(scales[0], name) < getattr(scales[1], name) < getattr(coarse, name)
    assert scales[1].close < 0.001 * scales[1].spread
    assert coarse.close < 0.2 * coarse.spread
    assert coarse.hardly == 0 < scales[0].hardly


def test_no_word_is_padding_or_its_own_neighbour():
    draws = torch.Generator().manual_seed(0)
    words = Words(30, 7, torch.device("cpu"))
    assert words.tokens.tolist() == [3, 4, 5, 6, *range(8, 30)]
    few = Words(5, 2, torch.device("cpu"))
    assert few.tokens.tolist() == [0, 1, 3, 4]
    for side in (words, few):
        sentences = side.draw(200, draws)
        assert set(sentences.unique().tolist()) == set(side.tokens.tolist())
        assert (sentences[:, 1:] != sentences[:, :-1]).all()
        assert (side.others(sentences) != sentences).all()
        assert set(side.others(sentences).unique().tolist()) == set(side.tokens.tolist())


def test_everything_inside_has_a_path():
    loop = {"a": [1, (2, {3})]}
    loop["self"] = loop
    found = {path: value for path, value in inside(loop, "x") if not isinstance(value, dict)}
    assert found == {
        "x['a']": [1, (2, {3})],
        "x['a'][0]": 1,
        "x['a'][1]": (2, {3}),
        "x['a'][1][0]": 2,
        "x['a'][1][1]": {3},
        "x['a'][1][1][0]": 3,
    }


def test_a_model_can_be_restored_again_and_again():
    model = Busy()
    with undisturbed(model) as restore:
        for _ in range(2):
            model.history.append(5)
            model.table.zero_()
            model.extra = 1
            del model.encoder
            restore()
            assert model.history == [1]
            assert model.table.any()
            assert not hasattr(model, "extra")
            assert len(model.encoder) == 2


def test_broken_models_have_names_that_one_says():
    names = [in_words(name) for name in FAULTY]
    assert len(set(names)) == len(FAULTY)
    assert {"torch's mask the other way round", "cross-attention under the causal mask"} <= {*names}
    assert not any(re.search("[A-Z_]", name) for name in names)


class Diary:
    def __init__(self):
        self.count, self.pages = 0, deque([1], maxlen=5)


class Keeper(Healthy):
    """Writes into whatever it holds, each time it is asked."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))
        self.counts, self.last, self.diary = np.zeros(3), deque(maxlen=2), Diary()
        self.own = torch.Generator().manual_seed(3)
        self.fixed, self.hidden = np.broadcast_to(np.arange(3.0), (2, 3)), [nn.Linear(1, 1)]
        self.dice, self.bits = random.Random(1), np.random.default_rng(1)
        self.grows = np.zeros(2)

    def forward(self, source, target):
        self.seen.data = torch.ones(len(self.seen) + 1)
        self.counts += 1
        self.last.append(source)
        self.diary.count += 1
        self.diary.pages.append(2)
        self.output.bias.requires_grad_(False)
        random.random()
        np.random.rand()  # noqa: NPY002
        torch.rand(1, generator=self.own)
        self.dice.random()
        self.bits.random()
        self.grows.resize(len(self.grows) + 1, refcheck=False)
        self.hidden[0].weight.data.zero_()
        return super().forward(source, target)


@pytest.mark.parametrize("odd", [lambda x: x.to_sparse(), lambda x: x.to(torch.float8_e4m3fn)])
def test_numbers_that_few_operations_take_are_said_to_be_so(odd):
    found = faults(Healthy(), **VOCABULARIES, forward=lambda model, *words: odd(model(*words)))
    assert set(found) == {"runs"}
    assert "which few operations take" in found["runs"].what


def test_whatever_a_model_writes_into_is_put_back():
    model = Keeper()
    seen, diary, own = model.seen, model.diary, model.own.get_state()
    hidden, odd = model.hidden[0].weight.clone(), model.dice.getstate()
    bits = model.bits.bit_generator.state
    dice = random.getstate()[1], np.random.get_state()[1].tolist()  # noqa: NPY002
    report = check(model, **VOCABULARIES, quiet=True)
    assert report["runs"].verdict == "passed"
    assert model.seen is seen
    assert seen.tolist() == [0.0]
    assert model.counts.tolist() == [0.0] * 3
    assert list(model.last) == []
    assert model.diary is diary
    assert (diary.count, list(diary.pages), diary.pages.maxlen) == (0, [1], 5)
    assert model.output.bias.requires_grad
    assert torch.equal(model.own.get_state(), own)
    assert torch.equal(model.hidden[0].weight, hidden)
    assert (model.dice.getstate(), model.bits.bit_generator.state) == (odd, bits)
    assert model.grows.tolist() == [0.0, 0.0]
    assert dice[0] == random.getstate()[1]
    assert dice[1] == np.random.get_state()[1].tolist()  # noqa: NPY002


def test_each_question_begins_with_the_same_random_numbers():
    model = Healthy()
    probe = Probe(model, lambda _, __, target: torch.rand(*target.shape, TARGET), (13, 17), 0, 5)
    assert torch.equal(probe(probe.source, probe.target), probe.base)
