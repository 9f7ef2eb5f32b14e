"""Every way of computing a model is its own modules with another look: all agree, whatever it is.

A row of the table makes a model, or changes one. Then what it computes for a padded batch is
computed in every other way; and the same where somebody edits a line of the package itself.
"""

import copy
import importlib
import pickle
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils.parametrizations import weight_norm

import unmasked
from helpers import (
    MODELS,
    VOCABULARY,
    as_target,
    difference,
    layer_config,
    put,
    ragged,
    small_config,
    small_model,
)  # fmt: skip
from unmasked import MultiHeadAttention, loss
from unmasked.encoder import EncoderLayer, Residual
from unmasked.layers import KEPT, Linear
from unmasked.looks import Layout
from unmasked.loss import translation_loss
from unmasked.masks import causal_mask, padding_mask
from unmasked.search import Steps, beam, greedy

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),  # for embeddings
    pytest.mark.filterwarnings("ignore:packed. padding stays in"),
]
SOURCE, TARGET = [7, 4, 1], [6, 2, 5]


def made(preset=None, **options):
    """Its greedy output is a surprise."""
    torch.manual_seed(1)
    return small_model(preset, **{"embedding_std": 1.0, "output_bias": True, **options})


def batch():
    torch.manual_seed(2)
    return ragged(SOURCE), ragged(TARGET)


def part(model, name):
    """A file of the package that the model is of: there may be edited ones."""
    own = next(kind for kind in type(model).__mro__ if kind.__name__ == "Transformer")
    return importlib.import_module(f"{own.__module__.partition('.')[0]}.{name}")


# --- Ways: each gives the logits of the target's real positions, [N, V] -----------------------


def padded(model, source, target):
    return model(source, target)[target != 0]


def packed(model, source, target):
    real = target != 0
    return model.generator(part(model, "loss").hidden_states(model, source, target, real, True))


def with_maps(model, source, target):
    return model(source, target, need_weights=True)[0][target != 0]


def in_pieces(model, source, target, pieces):
    memory, mask, state = model.encode(source), padding_mask(source), model.start(2)
    found = [
        model.decode(piece, memory, source_mask=mask, state=state)
        for piece in target.split(pieces, dim=1)
    ]
    return model.generator(torch.cat(found, dim=1))[target != 0]


def by_search(model, source, target):
    """No token of a search is padding, and none can be generated."""
    steps, first = part(model, "search").Steps(model, source, 1, 6), torch.zeros_like(target[:, :1])
    logits = [steps.step(token[:, None], first) for token in target.unbind(1)]
    return torch.cat(logits, dim=1)[target != 0]


def one_by_one(model, source, target):
    pairs = [(s[s != 0][None], t[t != 0][None]) for s, t in zip(source, target, strict=True)]
    return torch.cat([by_search(model, *pair) for pair in pairs])


def by_beam(model, source, target):
    """Three hypotheses a sentence. The second goes on in every place; the others change theirs."""
    steps = part(model, "search").Steps(model, source, 3, 6)
    others, place, found = torch.randint(3, VOCABULARY, (*target.shape, 3)), 0, []
    for time in range(target.shape[1]):
        parents = torch.randint(3 if time else 1, (len(source), 3))
        parents[:, (place + 1) % 3], place = place, (place + 1) % 3
        others[:, time, place] = target[:, time]
        found.append(steps.step(others[:, time], parents)[:, place])
    return torch.stack(found, dim=1)[target != 0]


def of_a_copy(model, source, target):
    """Of the model and of what it remembers, halfway."""
    model = copy.deepcopy(model)
    state, memory, mask = model.start(), model.encode(source), padding_mask(source)
    with torch.no_grad():
        first = model.decode(target[:, :3], memory, source_mask=mask, state=state)
        states = copy.deepcopy(state), pickle.loads(pickle.dumps(state)), state
        rests = [model.decode(target[:, 3:], memory, source_mask=mask, state=s) for s in states]
    assert all(torch.equal(rest, rests[0]) for rest in rests)
    return model.generator(torch.cat([first, rests[0]], dim=1))[target != 0]


WAYS = {
    "packed": packed,
    "maps": with_maps,
    "step by step": partial(in_pieces, pieces=1),
    "in chunks": partial(in_pieces, pieces=[3, 1, 2]),
    "search": by_search,
    "one sentence": one_by_one,
    "beam": by_beam,
    "copies": of_a_copy,
}


def assert_all_ways_agree(make):
    model, (source, target) = make(), batch()
    with torch.no_grad():
        expected = padded(model, source, target)
        for name, way in WAYS.items():
            found = way(model, source, target)
            assert difference(found[:, 1:], expected[:, 1:]) < 1e-10, name
    single = make().float()  # here a search lays its weights out
    with torch.inference_mode():
        expected_single = padded(single, source, target)
        scale = expected_single.abs().max().clamp(min=1)
        for way in (by_search, one_by_one, by_beam) * 2:
            found = way(single, source, target)
            assert difference(found[:, 1:], expected_single[:, 1:]) < 1e-5 * scale, way
    return expected


def assert_packed_gradients_are_the_padded_ones(model):
    given, found = (batch()[0], as_target(batch()[1])), []
    for packed in (False, True):
        value = part(model, "loss").translation_loss(model, *given, smoothing=0.1, packed=packed)
        parameters = [p for p in model.parameters() if p.requires_grad]
        found.append([value, *torch.autograd.grad(value, parameters, allow_unused=True)])
    for a, b in zip(*found, strict=True):
        assert (a is None and b is None) or difference(a, b) < 1e-10


# --- Structures and changes -------------------------------------------------------------------


def turned(x):
    """Other numbers, which no norm behind them can put right."""
    return x.roll(1, -1)


def turning(method):
    return lambda *given, **options: turned(method(*given, **options))


def subclassed(path, name):
    def change(model):
        each = model.get_submodule(path)
        each.__class__ = type("Changed", (type(each),), {name: turning(getattr(type(each), name))})

    return change


def new(path, **makers):
    """As `put`, of modules that are made for each model."""
    return lambda m: put(path, **{name: make().double() for name, make in makers.items()})(m)


def hooked(path, hook, kind="forward"):
    return lambda model: getattr(model.get_submodule(path), f"register_{kind}_hook")(hook)


def turning_hook(_, __, output):
    return turned(output)


def quantised(model):
    """Weights that may multiply otherwise than their numbers say."""
    part = model.decoder.layers[1].feed_forward.expand
    kind = type("Quantised", (torch.Tensor,), {"__deepcopy__": lambda self, _: self})
    part.weight = nn.Parameter(part.weight.detach().as_subclass(kind))


class Rotary(MultiHeadAttention):
    """Queries turn twice as far as keys: what counts is where they are, not only how far apart."""

    by_position = True

    def project(self, x, y, look, value=None):
        q, k, v = super().project(x, y, look, value)
        return self.turned(q, 2 * look.places(q)), self.turned(k, look.places(q)), v

    def turned(self, x, places):
        a, b = x.unflatten(-1, (self.n_heads, -1)).chunk(2, -1)
        angles = places[..., None, None] * 100.0 ** -torch.arange(a.shape[-1]).double()
        sin, cos = angles.sin().to(x), angles.cos().to(x)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).view(x.shape)


def attentions(model, *names):
    return [p for path, p in model.named_modules() if path.endswith(names)]


def rotary(model):
    for each in attentions(model, "self_attention"):
        each.__class__ = Rotary


def fewer_key_heads(model):
    """Two for four heads of queries, and values of another width."""
    for each in attentions(model, "_attention"):
        each.key, each.value = Linear(16, 8).double(), Linear(16, 12).double()
        each.output = Linear(24, 16).double()


def alternating_windows(model):
    def rule(n, past=0, **options):
        return ~causal_mask(n, past=past, **options).tril(past - 2)

    put("decoder.layers.1.self_attention", rule=rule)(model)


class ByDistance(nn.Module):
    """As T5: a learned number for each head and distance."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(4, 19, dtype=torch.float64))

    def forward(self, apart):
        return self.table[:, (apart + 9).clamp(0, 18)]


def put_into_attentions(**makers):
    def change(model):
        for each in attentions(model, "self_attention"):
            for name, make in makers.items():
                setattr(each, name, make())

    return change


def slopes():
    """As ALiBi."""
    return lambda apart: -apart.abs() * torch.tensor([0.5, 0.25, 0.1, 0.9])[:, None, None]


def shared(model):
    layers = model.decoder.layers
    layers[1].cross_attention.query = layers[1].self_attention.query
    layers[0].self_attention.output = layers[0].self_attention.query
    layers[0].cross_attention = layers[0].self_attention
    layers[1].cross_attention.key = layers[1].self_attention.output


LAST = "decoder.layers.1"
OTHERS = {"norm": "pre", "activation": "gelu", "n_decoder_layers": 1, "tie_embeddings": True,
          "bias": False}  # fmt: skip
STRUCTURES = {
    **{name: partial(made, name) for name in MODELS},
    "pre": partial(made, **OTHERS),
    "post, with a final norm": partial(made, final_norm=True, tie_embeddings="output"),
    "learned positions up to the last": partial(made, positions="learned", max_len=7),
    "positions beyond the table": partial(made, max_len=2),
    "convolutions": partial(made, feed_forward="conv"),
    "sizes of numpy": partial(made, d_model=np.int64(16)),
}
CHANGES = {
    "a note": put("", note="x"),
    "heads of one layer": put("decoder.layers.0.self_attention", n_heads=2),
    "a norm of another kind": new(f"{LAST}.feed_forward_residual", norm=lambda: nn.RMSNorm(16)),
    "another scale": put("source_embedding", scale=torch.full((16,), 3.0)),
    "one query without a bias": put(f"{LAST}.self_attention.query", bias=None),
    "other layers in the encoder": new(
        "encoder", layers=lambda: nn.ModuleList([EncoderLayer(layer_config(d_ff=7))] * 3)
    ),
    # --- shared
    "a shared layer": lambda m: m.decoder.layers.__setitem__(1, m.decoder.layers[0]),
    "shared parts": shared,
    # --- hooks
    "a hook on attention": hooked(f"{LAST}.self_attention", turning_hook),
    "a hook before a linear layer": hooked(
        f"{LAST}.cross_attention.value", lambda _, given: (turned(given[0]),), "forward_pre"
    ),
    "a hook on a query": hooked(f"{LAST}.self_attention.query", turning_hook),
    "a hook on an embedding": hooked("target_embedding", turning_hook),
    "a hook on the generator": hooked("generator", turning_hook),
    "a backward hook": hooked(
        f"{LAST}.feed_forward", lambda _, got, __: (1.5 * got[0], *got[1:]), "full_backward"
    ),
    # --- methods and classes
    "a replaced forward": lambda m: put(LAST, forward=turning(m.get_submodule(LAST).forward))(m),
    "a subclassed attention": subclassed(f"{LAST}.self_attention", "forward"),
    "an overridden encode": subclassed("", "encode"),
    "an overridden decode": subclassed("", "decode"),
    # --- weights
    "another query": new(f"{LAST}.self_attention", query=lambda: nn.Sequential(nn.Linear(16, 16))),
    "another generator": new("", generator=lambda: nn.Sequential(nn.Linear(16, VOCABULARY))),
    "weights of another kind": quantised,
    "words that are shortened": put("target_embedding.tokens", max_norm=2.0),
    "a parametrised query": lambda m: weight_norm(m.decoder.layers[1].cross_attention.query),
    # --- another attention
    "rotary positions": rotary,
    "fewer heads of keys, wider values": fewer_key_heads,
    "alternating windows": alternating_windows,
    "a bias by distance": put_into_attentions(score_bias=ByDistance),
    "slopes": put_into_attentions(score_bias=slopes),
    "sinks": put_into_attentions(sinks=lambda: nn.Parameter(torch.randn(4).double())),
}


SILENT = "a note", "a backward hook", "weights of another kind", "a parametrised query"


def changed(change):
    model = made()
    change(model)
    return model


@pytest.mark.parametrize("make", STRUCTURES.values(), ids=STRUCTURES)
def test_every_structure_is_the_same_in_every_way(make):
    assert_all_ways_agree(make)
    assert_packed_gradients_are_the_padded_ones(make())


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_holds_in_every_way(change):
    with torch.no_grad():
        before = padded(made(), *batch())
    after = assert_all_ways_agree(partial(changed, change))
    assert torch.equal(before, after) == (change in [CHANGES[name] for name in SILENT])
    assert_packed_gradients_are_the_padded_ones(changed(change))


PATCHES = {
    "Residual.forward": (Residual, "forward"),
    "Residual's call": (Residual, "__call__"),
    "PyTorch's linear layer": (nn.Linear, "forward"),
    "our linear layer": (Linear, "forward"),
    "attention": (sys.modules["unmasked.attention"], "attention"),
}


def patched(owner, name):
    return mock.patch.object(owner, name, turning(getattr(owner, name)))


def hook_on_all():
    def hook(part, _, output):
        return turned(output) if isinstance(part, Residual) else None

    return register_module_forward_hook(hook)


@pytest.mark.parametrize("how", [*(partial(patched, *p) for p in PATCHES.values()), hook_on_all],
                         ids=[*PATCHES, "a hook on all modules"])  # fmt: skip
def test_so_does_what_somebody_patches_until_it_is_taken_back(how):
    with torch.no_grad():
        before = padded(made(), *batch())
    assert_all_ways_agree(made)
    with how():
        assert not torch.equal(assert_all_ways_agree(made), before)
        assert_packed_gradients_are_the_padded_ones(made())
    assert torch.equal(assert_all_ways_agree(made), before)


# --- The source, edited -----------------------------------------------------------------------

ROTARY = """        if x is y:
            a, b = (each.unflatten(-1, (self.n_heads, -1)).chunk(2, -1) for each in (q, k))
            rates = 9.0 ** -torch.arange(q.shape[-1] // 8).double()
            angles = look.places(q)[..., None, None] * rates
            sin, cos = angles.sin().to(x), angles.cos().to(x)
            q = torch.cat([a[0] * cos - a[1] * sin, a[0] * sin + a[1] * cos], -1).flatten(-2)
            k = torch.cat([b[0] * cos - b[1] * sin, b[0] * sin + b[1] * cos], -1).flatten(-2)
        return q, k, v
"""
EDITS = {
    "a window of three": ("masks.py", {
        "return torch.ones(n, past + n, dtype=torch.bool, device=device).tril(past)":
        "seen = torch.ones(n, past + n, dtype=torch.bool, device=device).tril(past)\n"
        "    return seen & ~seen.tril(past - 3)"}),
    "scores over K": ("attention.py", {"1 / math.sqrt(query.shape[-1])": "1 / query.shape[-1]"}),
    "a sine": ("feed_forward.py", {"self.activation(self.expand(x))": "self.expand(x).sin()"}),
    "rotary positions": ("attention.py", {"        return q, k, v\n": ROTARY}),
    "two heads of keys": ("attention.py", {
        f"self.{name} = Linear(d_model, d_model": f"self.{name} = Linear(d_model, d_model // 2"
        for name in ("key", "value")}),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_a_stranger_edits_one_file(tmp_path, monkeypatch, name):
    """And all ways follow: masks, packing, steps and beams ask the same lines."""
    package, (file, edits) = f"edited_{[*EDITS].index(name)}", EDITS[name]
    home = Path(unmasked.__file__).parent
    shutil.copytree(
        home, tmp_path / package, ignore=shutil.ignore_patterns("models", "__pycache__")
    )
    text = (home / file).read_text("utf-8")
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / package / file).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    theirs = importlib.import_module(package)

    def make():
        torch.manual_seed(1)
        options = vars(small_config(embedding_std=1.0, output_bias=True))
        return theirs.Transformer(theirs.TransformerConfig(**options)).double().eval()

    with torch.no_grad():
        before = padded(made(), *batch())
    assert not torch.equal(assert_all_ways_agree(make), before)
    assert_packed_gradients_are_the_padded_ones(make())
    if name == "two heads of keys":
        steps = theirs.search.Steps(make(), batch()[0], 1, 6)
        steps.step(torch.ones(3, 1, dtype=torch.long), torch.zeros(3, 1, dtype=torch.long))
        assert steps.state.looks[0][0].keys.shape[1] == 2


# --- Packing ----------------------------------------------------------------------------------


def test_padding_is_left_out_where_every_part_works_by_position_and_else_it_is_said():
    model, (source, target) = made(), batch()

    def packs():
        with mock.patch("unmasked.transformer.Layout", wraps=Layout) as layouts:
            translation_loss(model, source, as_target(target), packed=True)
        return layouts.called

    assert packs()
    attention = model.decoder.layers[0].self_attention
    attention.__class__ = type("Own", (MultiHeadAttention,), {})
    with pytest.warns(UserWarning, match="decoder.layers.0.self_attention does not say"):
        assert not packs()
    attention.by_position = True
    assert packs()
    model.decoder.layers[0].feed_forward = nn.Softsign()
    with pytest.warns(UserWarning, match="search: decoder.layers.0.feed_forward may look"):
        greedy(model, source, 3)
    model.decoder.layers[0].feed_forward = nn.Identity()
    model.encoder.register_forward_hook(lambda *_: None)
    with pytest.warns(UserWarning, match="encoder has a hook"):
        assert not packs()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("target_embedding.dropout", "p"),
        (f"{LAST}.cross_attention", "dropout"),
        (f"{LAST}.feed_forward.dropout", "p"),
        (f"{LAST}.cross_residual.dropout", "p"),
    ],
)
def test_dropout_is_applied_in_every_place(path, name):
    """Each place alone drops something, packed and padded."""
    model, (source, target) = made(dropout=0.0).train(), batch()
    put(path, **{name: 0.5})(model)
    for packed in (False, True):
        values = {
            translation_loss(model, source, as_target(target), packed=packed).item()
            for _ in range(5)
        }
        assert len(values) == 5


def test_a_generator_that_is_not_plain_is_called_for_many_logits_too(monkeypatch):
    model, (source, target) = made(), batch()
    model.generator.register_forward_hook(turning_hook)
    whole = translation_loss(model, source, as_target(target))
    monkeypatch.setattr(loss, "MANY", 0)
    assert difference(translation_loss(model, source, as_target(target)), whole) < 1e-12


# --- Steps ------------------------------------------------------------------------------------


def test_steps_through_frozen_keys_have_the_gradients_of_the_whole():
    model, (source, target) = made(), batch()
    for each in attentions(model, ".key", ".value"):
        each.requires_grad_(False)
    wanted = [p for p in model.parameters() if p.requires_grad]
    sums = [way(model, source, target).square().sum() for way in (padded, WAYS["step by step"])]
    a, b = (torch.autograd.grad(s, wanted, allow_unused=True) for s in sums)
    assert all((x is y is None) or difference(x, y) < 1e-9 for x, y in zip(a, b, strict=True))


def test_a_sentence_of_padding_has_empty_maps():
    model, (source, target) = made(), batch()
    source[1] = 0
    logits, maps = model(source, target, need_weights=True)
    assert maps.cross[1][1].eq(0).all()
    assert difference(in_pieces(model, source, target, 2), logits[target != 0]) < 1e-10


def test_steps_go_on_where_sentences_end_and_after_a_step_that_failed():
    """Their rows are others then, their places are not."""
    model, (source, target) = changed(rotary), batch()
    memory, mask, state = model.encode(source), padding_mask(source), model.start()
    whole = model.decode(target, memory, source_mask=mask)
    given = {"source_mask": mask, "state": state}
    model.decode(target[:, :3], memory, **given)
    broken = mock.patch.object(model.decoder.layers[1], "forward", side_effect=MemoryError)
    with broken, pytest.raises(MemoryError):
        model.decode(target[:, 3:], memory, **given)
    rows = torch.tensor([0, 2])
    state.select(rows)
    rest = model.decode(target[rows, 3:], memory[rows], source_mask=mask[rows], state=state)
    assert difference(rest, whole[rows, 3:]) < 1e-12
    with torch.no_grad():
        found, tokens = [], target[:, :1]
        for use_cache in (True, False):
            steps = Steps(model, source, 1, 6, use_cache)
            steps.step(tokens, torch.zeros_like(tokens))
            steps.keep(torch.tensor([False, True, True]))
            found.append(steps.step(tokens[1:], torch.zeros_like(tokens[1:]))[..., 1:])
    assert difference(*found) < 1e-10


def test_float16_on_a_cpu():
    model, (source, target) = made(), batch()
    expected, model = padded(model, source, target), model.half()
    with torch.no_grad():
        for way in (padded, *WAYS.values()):
            assert difference(way(model, source, target)[:, 1:].double(), expected[:, 1:]) < 0.03


def test_exported_between_searches():
    model, (source, target) = made(n_layers=1), batch()
    before = greedy(model, source, 6)
    exported = torch.export.export(model, (source, target)).module()
    assert difference(exported(source, target), model(source, target)) < 1e-12
    assert torch.equal(greedy(model, source, 6), before)


def test_twenty_threads_translate_with_one_model_and_train_another():
    model, other, (source, target) = made().float(), made().float(), batch()
    expected = [beam(model, source, width, 9).tokens for width in (1, 2, 3)]

    def work(number):
        for width in (1, 2, 3):
            assert torch.equal(beam(model, source, width, 9).tokens, expected[width - 1])
        if number == 0:
            translation_loss(other, source, as_target(target), packed=True).backward()

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(work, range(20)))


# --- Laid out ---------------------------------------------------------------------------------


def test_a_layout_goes_when_its_model_is_moved():
    model = made().float()
    greedy(model, ragged([5]), 3)
    assert [part for part in model.modules() if part in KEPT]
    model.half()
    assert not [part for part in model.modules() if part in KEPT]


def test_searches_go_on_whatever_becomes_the_default_type():
    model, source = made().float(), ragged([5])
    expected = greedy(model, source, 9)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(greedy(copy.deepcopy(model), source, 9), expected)
        assert torch.equal(greedy(model, source, 9), expected)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(greedy(model, source, 9), expected)
