"""Tests that `unmasked.check` finds faults, accuses no sound model, and leaves each as it was."""

import copy
import math
import random
import re
from collections import deque
from contextlib import suppress
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import unmasked
from helpers import DEVICES, small_config
from helpers.refusals import refusals
from unmasked import Transformer, check, plain
from unmasked.checking.report import Finding, Report
from unmasked.masks import causal_mask
from unmasked_book.faulty import FAULTY, SIZES, TARGET, VOCABULARIES, WIDTH, Healthy, Torch, step
from unmasked_book.workshop.reference import module, whole

# --- Healthy models, each of which takes another way through the questions ----------------------


class Baggage(Healthy):
    """Holds what a module may hold without harm; the computed tensor forbids a copy."""

    def __init__(self):
        super().__init__()
        self.teacher = copy.deepcopy(self).requires_grad_(False)  # a copy that is not trained
        self.activations = {"relu": nn.ReLU(), "more": (nn.Identity(),)}
        self.again = [self.encoder[0], {"weight": self.generator.weight}, self]
        self.again.append(self.again)
        self.number, self.nothing = torch.tensor(2.0), torch.empty(0)
        self.computed = self.generator.weight / 2
        self.names = {"words": {"a": 0, "b": 1}, "seen": {1, 2}, "none": None}


def other_padding():
    changed = module(whole([("padding_mask", (("!= 0", "!= 4"),))]))
    return changed.Transformer(*SIZES)


class Experts(nn.Module):
    """Sends each word to one of eight experts, or to all and counts the others for nothing."""

    def __init__(self, everywhere):
        super().__init__()
        self.everywhere, self.router = everywhere, nn.Linear(WIDTH, 8, bias=False)
        self.experts = nn.ModuleList(plain.FeedForward(WIDTH, 16) for _ in range(8))

    def forward(self, x):
        chances = self.router(x).softmax(-1)
        shares = chances * (chances == chances.amax(-1, keepdim=True))
        if self.everywhere:
            return sum(expert(x) * shares[..., [i]] for i, expert in enumerate(self.experts))
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = shares[..., i] > 0
            if rows.any():
                y[rows] = expert(x[rows]) * shares[rows][:, [i]]
        return y


class Recurrent(nn.Module):
    """Reads the source by an LSTM, packed, and attends to it from a second one."""

    def __init__(self):
        super().__init__()
        self.words, self.written = nn.Embedding(13, 8), nn.Embedding(TARGET, 8)
        self.encoder, self.decoder = (nn.LSTM(8, 8, batch_first=True) for _ in range(2))
        self.output = nn.Linear(16, TARGET)

    def forward(self, source, target):
        lengths = (source != 0).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.words(source), lengths, batch_first=True, enforce_sorted=False
        )
        memory, state = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(memory, batch_first=True)
        x, _ = self.decoder(self.written(target), state)
        real = plain.padding_mask(source[:, : lengths.max()])[:, 0]
        return self.output(torch.cat([x, plain.attention(x, memory, memory, real)], dim=-1))


def healthy(change, *options):
    """Returns a function that makes a healthy model and changes it."""

    def make():
        change(model := Healthy(), *options)
        return model

    return make


def mixture(model, everywhere):
    for layer in [*model.encoder, *model.decoder]:
        layer.feed_forward = Experts(everywhere)


def large(model):
    for parameter in model.parameters():
        parameter.data.mul_(100)


def wrapped(model):
    forward = model.forward
    model.forward = lambda *words: forward(*words)  # a copy calls the original's


def sparse(model):
    model.source_embedding.sparse = True


def a_loss_in_training(model, *words):
    logits = model(*words)
    return logits.mean() if model.training else logits


def no_graph_in_evaluation(model, *words):
    with torch.set_grad_enabled(model.training):
        return model(*words)


def log_probabilities(model, *words):
    return model(*words).index_fill(2, torch.tensor(0), -math.inf).log_softmax(-1)


def ours(**options):
    return lambda: Transformer(small_config(**options))


HEALTHY = {
    "ours in plain torch": (Healthy, VOCABULARIES | {"step": step}),
    "nn.Transformer": (Torch, VOCABULARIES),
    "8 layers": (ours(n_layers=8), {}),
    "learned positions, no bias": (ours(positions="learned", max_len=12, bias=False), {}),
    "convolutions, three matrices tied": (ours(feed_forward="conv", tie_embeddings=True), {}),
    "bfloat16": (lambda: Transformer(small_config()).bfloat16(), {}),
    "float16": (lambda: Transformer(small_config()).half(), {}),
    "experts that some words call": (healthy(mixture, False), VOCABULARIES),
    "experts that all words call": (healthy(mixture, True), VOCABULARIES),
    "weights a hundred times as large": (healthy(large), VOCABULARIES),
    "forward put in place of another": (healthy(wrapped), VOCABULARIES),
    "sparse gradients": (healthy(sparse), VOCABULARIES),
    "de-en": (lambda: unmasked.load("de-en").model, {}),
    "log-probabilities of ours": (ours(), {"forward": log_probabilities}),
    "other padding": (other_padding, VOCABULARIES | {"padding": 4}),
    "LSTM": (Recurrent, VOCABULARIES),
    "each layer called for each word": (Healthy, VOCABULARIES | {"forward": step}),
    "baggage": (Baggage, VOCABULARIES),
    "a loss in training": (Healthy, VOCABULARIES | {"forward": a_loss_in_training}),
    "no graph in evaluation": (Healthy, VOCABULARIES | {"forward": no_graph_in_evaluation}),
}


SOME = ("learned positions, no bias", "LSTM")  # are enough on a GPU


@pytest.mark.parametrize(
    ("name", "device"), [*product(HEALTHY, DEVICES[:1]), *product(SOME, DEVICES[1:])]
)
def test_a_healthy_model_is_accused_of_nothing(name, device):
    make, options = HEALTHY[name]
    model = make().to(device)
    report = check(model, quiet=True, **options)
    assert report.ok
    notes = {place for place, verdict in report.verdicts.items() if verdict == "note"}
    half = "float16" in name  # what changes places may be lost in rounding
    assert notes <= ({"gradient", "order"} if half else {"gradient"})
    others = {place for place, verdict in report.verdicts.items() if verdict == "not offered"}
    assert others <= {"cached"}
    cached = "step" in options or (isinstance(model, Transformer) and "forward" not in options)
    assert report["cached"].verdict == ("passed" if cached else "not offered")


def found(model, verdict="fault", **options):
    """Returns the findings of one verdict by property; where they are notes there is no fault."""
    report = check(model, quiet=True, **options)
    assert verdict == "fault" or report.ok
    return {each.property: each for each in report.findings if each.verdict == verdict}


def test_the_smallest_vocabulary_is_enough_and_who_does_not_train_needs_no_gradient():
    model = Healthy()
    model.source_embedding, model.target_embedding = nn.Embedding(4, WIDTH), nn.Embedding(4, WIDTH)
    model.generator = nn.Linear(WIDTH, 4)
    for trained, verdict in ((True, "note"), (False, "not offered")):
        report = check(model.requires_grad_(trained), source_vocab=4, target_vocab=4, quiet=True)
        assert report.ok
        assert report["gradient"].verdict == verdict


# --- Faulty ones --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_is_found_and_no_other(name):
    make, properties, options, _ = FAULTY[name]
    faults = found(make(), **options)
    assert set(faults) == properties
    assert all(fault.advice for fault in faults.values())


class UnprintableError(Exception):
    def __str__(self):
        raise self


def raising(error):
    def forward(*_):
        raise error

    return forward


@pytest.mark.parametrize(
    ("forward", "what"),
    [
        (lambda m, *xy: m(*xy).index_fill(1, torch.tensor(2), -math.inf), r"output\[2\] .*"),
        (lambda m, *xy: m(*xy).to_sparse(), ".* no floating-point tensor but torch.sparse_coo"),
        (raising(ValueError("\x1b[31m" + "x" * 100_000)), r"ValueError: \\x1b\[31mx{1,500}…"),
        (raising(UnprintableError()), "UnprintableError"),
    ],
)
def test_what_are_no_logits_does_not_run(forward, what):
    [runs] = found(Healthy(), **VOCABULARIES, forward=forward).values()
    assert runs.property == "runs"
    assert re.fullmatch(what, runs.what)


class Stubborn(list):
    def __iter__(self):
        raise ValueError


def test_a_question_that_fails_is_no_fault_of_the_model():
    model = Healthy()
    model.stubborn = Stubborn()
    report = check(model, quiet=True, **VOCABULARIES)
    assert report.ok
    assert report["registered"].what == "the question failed: ValueError:"


def test_a_batch_that_is_sorted_and_not_put_back_is_found():
    def forward(model, source, target):
        order = (source == 0).sum(1).argsort(stable=True)
        return model(source[order], target[order])

    assert set(found(Healthy(), **VOCABULARIES, forward=forward)) == {"padding"}


class Sized(nn.Embedding):
    def forward(self, size):
        return super().forward(torch.zeros(size).long())


def test_an_embedding_may_be_called_with_a_size():
    def forward(model, source, target):
        model.sized(target.shape)
        return model(source, target)

    model = FAULTY["no positions in the decoder"].make()
    model.sized = Sized(1, 1).requires_grad_(False)
    assert found(model, **VOCABULARIES, forward=forward)["order"].what.startswith("one word repe")


def test_nothing_is_compared_where_two_calls_differ():
    everything = {"causality", "own words", "source", "order", "padding", "cached"}
    for name, unclear in (
        ("an output that depends on a counter", everything),
        ("dropout that is never told", {"padding", "cached"}),  # alike if it begins alike
    ):
        verdicts = check(FAULTY[name].make(), quiet=True, **VOCABULARIES).verdicts
        assert {place for place, verdict in verdicts.items() if verdict == "not offered"} == unclear


def test_half_precision_still_finds_what_can_be_found():
    unseen = "source padding is seen in cross-attention"
    for name in ("no causal mask", "no cross-attention", unseen):
        make, expected, options, _ = FAULTY[name]
        assert set(found(make().bfloat16(), **options)) == expected


# --- Notes --------------------------------------------------------------------------------------


def test_weights_that_begin_with_zero_may_hide_what_is_behind_them():
    model = Healthy()
    for layer in model.decoder:
        layer.cross_attention.output.requires_grad_(False).weight.zero_()
    notes = found(model, "note", **VOCABULARIES)
    assert set(notes) == {"source", "order", "gradient"}
    assert notes["source"].advice.startswith("decoder.0.cross_attention.output.weight")


def test_a_mask_without_its_diagonal_is_noted_where_the_first_row_is_looked_after():
    def strictly(model, source, target):
        mask = (target != 0)[:, None, None] & causal_mask(target.shape[1]).tril(-1)
        return model(source, target, target_mask=mask)

    what = found(Transformer(small_config()), "note", forward=strictly)["own words"].what
    assert what.startswith("output[1] reads earlier words in what decoder.layers.1.self_atten")


def test_probabilities_and_what_rounding_alone_moves_are_noted():
    probable = {"forward": lambda model, *words: model(*words).softmax(-1)}
    assert "probabilities" in found(Healthy(), "note", **VOCABULARIES, **probable)["runs"].what
    what = found(Transformer(small_config(n_layers=1)), "note")["gradient"].what
    expected = "encoder.layers.0.self_attention.key.bias, decoder.layers.0.self_attention.key.bias"
    assert what.startswith(f"nothing but rounding comes to {expected}, ")


def test_layers_that_are_copies_are_noted_and_copied_embeddings_are_a_fault():
    """The embeddings are as wide as the vocabulary, and the layers' matrices are square, too."""
    model = Transformer(small_config(d_model=16, source_vocab=16, target_vocab=16))
    first, second = model.encoder.layers
    first.self_attention.load_state_dict(second.self_attention.state_dict())
    assert (
        "copies of each other: encoder.layers.0.self_attention" in found(model, "note")["tied"].what
    )
    model.generator.weight.data.copy_(model.target_embedding.tokens.weight)
    assert set(found(model)) == {"tied"}


def test_what_is_tied_is_one_parameter():
    model = Healthy()
    model.generator.weight = nn.Parameter(model.target_embedding.weight.data)
    what = found(model, "note", **FAULTY["tied and then made anew"].options)["tied"].what
    assert what == "two parameters in one memory: target_embedding.weight and generator.weight"


# --- As it was ----------------------------------------------------------------------------------


class Busy(Healthy):
    """Changes all that a forward can reach."""

    stop = None

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(2))
        self.register_buffer("newest", torch.zeros(()))
        self.kept, self.last = {"a": torch.ones(2)}, None
        self.diary = SimpleNamespace(count=0, pages=deque([1], maxlen=5))
        self.hidden = [nn.Linear(1, 1)]

    def embed(self, embedding, tokens):
        x = super().embed(embedding, tokens)
        self.calls.data = torch.ones(len(self.calls) + 1)
        self.newest.copy_(x.mean())  # with the graph, where there is one
        self.kept["a"].mul_(2)
        self.kept["b"] = self.last = x
        self.diary.count += 1
        self.diary.pages.append(2)
        self.hidden[0].weight.data.zero_()
        self.decoder[0].training = not self.decoder[0].training
        self.generator.weight.requires_grad_(False)
        random.random()
        np.random.rand()  # noqa: NPY002
        if self.stop is not None:
            raise self.stop
        return x


def state_of(model):
    """Returns what a call changes: first what is always put back, then what only a copy spares."""
    parameters, modules = list(model.parameters()), list(model.modules())
    numbers = [*parameters, *(p.grad for p in parameters), *model.buffers(), torch.get_rng_state()]
    numbers.append(np.random.get_state()[1])  # noqa: NPY002
    flags = [p.requires_grad for p in parameters], [module.training for module in modules]
    deep = [*model.kept.values(), model.hidden[0].weight]
    plain = list(model.kept), vars(model.diary)
    always = [x.tolist() for x in numbers], flags, random.getstate(), model.last
    return copy.deepcopy((always, ([x.tolist() for x in deep], plain)))


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (None, {"gradient", "registered"}),
        (ValueError("no"), {"runs"}),
        (KeyboardInterrupt(), set()),
    ],
)
def test_the_model_and_the_random_numbers_are_left_as_they_were(stop, expected, copied):
    model, faults = Busy(), set()
    model.computed = None if copied else model.generator.weight / 2
    sum(parameter.sum() for parameter in model.parameters()).backward()
    model.encoder[1].eval()
    model.stop = stop
    before, parts = state_of(model), dict(model.named_modules())
    with suppress(KeyboardInterrupt):
        faults = set(found(model, **VOCABULARIES))
    assert faults == expected
    assert state_of(model)[: 1 + copied] == before[: 1 + copied]
    assert dict(model.named_modules()) == parts


def test_the_same_seed_gives_the_same_report():
    model = FAULTY["dropout that is never told"].make()
    first = check(model, quiet=True, **VOCABULARIES)
    torch.manual_seed(7)
    assert check(model, quiet=True, **VOCABULARIES) == first
    assert check(model, quiet=True, seed=1, **VOCABULARIES) != first


def test_float32_is_float32_while_it_is_looked_at_and_that_may_be_anywhere():
    seen = set()

    def forward(model, source, target):
        seen.add(torch.get_float32_matmul_precision())
        return model(source, target)

    model = Healthy()
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.inference_mode():
            assert check(model, forward, quiet=True, **VOCABULARIES).ok
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert seen == {"highest"}


# --- The report ---------------------------------------------------------------------------------


def test_a_report_is_printed_and_read(capsys):
    make, _, options, _ = FAULTY["a layer that only a function holds"]
    report = check(make(), **options)
    assert capsys.readouterr().out == f"{report}\n"
    lines = str(report).splitlines()
    begun = [line.split()[0] for line in lines if line[0] != " "]
    assert (begun[0], begun.count("FAULT")) == ("ok", 1)
    assert max(map(len, lines)) <= 100
    assert re.fullmatch(r"Report\(\d+ passed, 1 fault, .*\)", repr(report))
    assert report["registered"] is report.faults[0]
    assert report["cached"] == Finding("cached", "not offered", "no step was given")


def test_a_model_that_does_not_run_is_asked_no_more(capsys):
    make, _, options, _ = FAULTY["an attribute that is missing"]
    report = check(make(), quiet=True, **options)
    assert capsys.readouterr().out == ""  # it is quiet
    assert repr(report) == "Report(0 passed, 1 fault, 10 not offered)"
    assert report["runs"].what.startswith("AttributeError: 'Transformer' object has")
    assert {f.what for f in report.findings[1:]} == {"the model does not run"}


# --- Refusals -----------------------------------------------------------------------------------


LAZY = Healthy()
LAZY.generator = nn.LazyLinear(TARGET)


def asked(model=None, **options):
    return lambda: check(model or Healthy(), quiet=True, **{**VOCABULARIES, **options})


test_what_cannot_be_asked_is_refused = refusals(
    (lambda: Report(())["mask"], "property: expected 'runs' or .*, got 'mask'"),
    (asked(len), "model: expected a Module, got builtin"),
    (asked(LAZY), "model: expected parameters that have numbers, got some without"),
    (asked(source_vocab=None), "source_vocab: expected the number of words, got None"),
    (asked(target_vocab=10**12), "target_vocab: expected at most .*, got 1000000000000"),
    (asked(padding=13), "padding: expected a token below source_vocab=13, got 13"),
    (asked(seed=-1), "seed: .* at least 0, got -1"),
    (asked(seed=2**64), "seed: .* at most 18,.*, got 18446744073709551616"),
    (asked(forward="model"), "forward: expected a function of .*, got str"),
    (asked(tied=[("generator.weight", "words.weight")]), "tied: .*, got 'words.weight'"),
)
