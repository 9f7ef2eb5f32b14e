"""Tests that `check` names bugs planted in language models, and describes what is sound."""

import inspect
import re
from pathlib import Path

import pytest
import torch
from torch import nn

from unmasked import check, plain
from unmasked_book import family
from unmasked_book.workshop.mistakes import change, rows
from unmasked_book.workshop.reference import module

ALONE = re.sub(r"(?s)from unmasked.plain import.*?# fmt: skip", "", inspect.getsource(family))
TEXT = inspect.getsource(plain) + ALONE
SIZES = (61, 32, 4, 2, 64, 0.1)  # words, width, heads, layers, inner width, dropout
ROWS = [(heading, *row) for heading, row in rows(Path(__file__).with_name("models.txt"))]


def rows_of(*kinds):
    return [row for row in ROWS if row[0].split()[0] in kinds]


def ids(row):
    return f"{row[0]}: {row[1]}"


def made(kind, *changes):
    """Makes a model of the family, its source text changed, and returns it and its `step`."""
    text = TEXT
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    models = module(text)
    torch.manual_seed(0)
    model = getattr(models, kind)(*SIZES, **({"n_groups": 2} if kind == "Llama" else {}))
    for name, weight in model.named_parameters():
        nn.init.normal_(weight, mean=float("norm.weight" in name), std=0.2)
    return model.eval(), models.step


def asked(model, step, **options):
    """Checks a model of this vocabulary; a cache is a list of tensors [B, T, D]."""
    encoder, crop = type(model).__name__ == "BERT", lambda cache, n: [x[:, :-n] for x in cache]
    given = {"vocab": SIZES[0], "encoder": encoder, "step": step, "crop": crop, "padding": 0}
    return check(model, quiet=True, **(given | options))


@pytest.mark.parametrize("row", rows_of("GPT2", "Llama", "BERT"), ids=ids)
def test_the_first_fault_is_the_bugs_own(row):
    kind, _, name, *changes = row
    report = asked(*made(kind, *map(change, changes)))
    assert report.faults, report
    assert report.faults[0].property == name, report


@pytest.mark.parametrize("row", rows_of("like"), ids=ids)
def test_a_reference_shows_what_agrees_with_itself_and_where(row):
    _, _, where, *changes = row
    (model, step), (reference, _) = made("Llama", *map(change, changes)), made("Llama")
    assert asked(model, step).ok
    [fault] = asked(model, step, like=reference).faults
    assert fault.property == "like"
    assert f"part in its {where}" in fault.what
    assert asked(*made("Llama"), like=reference).ok


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("reordered", {"reorder": lambda cache, rows: [cache[0][rows], *cache[1:]]}),
        ("cropped", {"crop": lambda cache, n: [cache[0][:, :-n], *cache[1:]]}),
        ("tied", {"tied": [("generator.weight", "positions.weight")]}),
    ],
)
def test_what_is_given_beside_the_model_is_asked_too(name, options):
    assert asked(*made("GPT2"), **options).faults[0].property == name


def test_weights_that_are_too_small_to_show_a_bug_can_be_redrawn():
    model, step = made("GPT2", change("dtype=torch.bool).tril() → dtype=torch.bool).tril(1)"))
    for weight in model.parameters():
        weight.data.mul_(1e-6)
    assert asked(model, step, redraw=True).faults[0].property == "causality"
    assert max(weight.abs().max() for weight in model.parameters()) < 1e-5


# --- Sound ones ---------------------------------------------------------------------------------

WITHOUT = {
    "chunks": {"padding": None},
    "the first word, and a window": {"padding": None},
    "a prefix": {"padding": None, "step": None},
}


@pytest.mark.parametrize("row", rows_of("sound"), ids=ids)
def test_what_is_sound_is_described_and_not_accused(row):
    kind, name, said, *changes = row
    model, step = made(kind.split()[1], *map(change, changes))
    report = asked(model, **({"step": step} | WITHOUT.get(name, {})))
    assert report.ok, report
    notes = [each for each in report.findings if each.verdict == "note"]
    [note] = [each.what for each in notes if each.property != "gradient"] or ["-"]
    assert said in note


class Lora(nn.Module):
    """A frozen linear layer, and a difference of low rank that begins at zero."""

    def __init__(self, base):
        super().__init__()
        self.base, self.down = base.requires_grad_(False), nn.Linear(base.in_features, 2)
        self.up = nn.Linear(2, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def tied(model):
    model.generator.weight = model.target_embedding.weight
    return model


def with_lora(model):
    for layer in model.requires_grad_(False).decoder:
        layer.self_attention.query = Lora(layer.self_attention.query)
    return model


WRAPPED = {
    "nothing": lambda model: model,
    "tied": tied,
    "bfloat16": lambda model: model.bfloat16(),
    "float16": lambda model: model.half(),
    "float64": lambda model: model.double(),
    "compiled": lambda model: torch.compile(model, backend="eager"),
    "LoRA": with_lora,
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
def test_another_precision_and_a_wrapper_change_no_verdict(wrap):
    model, step = made("Llama")
    assert asked(wrap(model), step).ok


class Recurrent(nn.Module):
    """A recurrent language model, whose cache is its state; `cell` is a GRU, or decays it."""

    def __init__(self, gru):
        super().__init__()
        self.embedding, self.output = nn.Embedding(61, 32), nn.Linear(32, 61)
        self.gru = nn.GRU(32, 32, batch_first=True) if gru else None
        self.decay = None if gru else nn.Linear(32, 32)

    def forward(self, tokens, state=None):
        x = self.embedding(tokens)
        if self.gru is not None:
            y, state = self.gru(x, state)
            return self.output(y), state
        outputs, state = [], x[:, 0] * 0 if state is None else state
        for word in x.unbind(1):
            keep = self.decay(word).sigmoid()
            state = keep * state + (1 - keep) * word
            outputs.append(state)
        return self.output(torch.stack(outputs, 1)), state


@pytest.mark.parametrize("gru", [True, False])
def test_a_recurrent_model_is_sound_without_padding(gru):
    report = check(
        Recurrent(gru), lambda model, tokens: model(tokens)[0], vocab=61, padding=None, quiet=True,
        step=lambda model, tokens, seen, state: model(tokens[:, seen:], state),
        reorder=lambda state, rows: state.index_select(int(gru), rows),
    )  # fmt: skip
    assert report.ok, report
    assert report["reordered"].verdict == report["chunked"].verdict == "passed"
