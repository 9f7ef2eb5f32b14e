"""Faster versions stand in for plain models only; whatever a model was made into, the numbers stay.

Each change below is made to a small model. Then search with a cache must find what search without
one finds, and the packed loss and its gradient must be those of the padded one.
"""

import copy
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils.parametrizations import weight_norm
from torch.optim.swa_utils import AveragedModel

from helpers import (
    DEVICES,
    MODELS,
    as_target,
    difference,
    layer_config,
    put,
    ragged,
    small_model,
)  # fmt: skip
from unmasked import loss
from unmasked.encoder import EncoderLayer, Residual
from unmasked.fast.guard import is_plain
from unmasked.loss import translation_loss
from unmasked.search import beam, greedy

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # for embeddings
OTHERS = {
    "norm": "pre", "activation": "gelu", "feed_forward": "conv", "n_decoder_layers": 1,
    "positions": "learned", "tie_embeddings": True, "bias": False,
}  # fmt: skip


def made(preset=None, **options):
    """Its greedy output is a surprise."""
    return small_model(preset, **{"embedding_std": 1.0, "output_bias": True, **options})


def batch(lengths=(6, 3, 1), targets=(2, 5, 3)):
    torch.manual_seed(1)
    return ragged(list(lengths)), as_target(ragged(list(targets)))


def gradients(model, packed, given):
    loss = translation_loss(model, *given, smoothing=0.1, packed=packed)
    return loss, *torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)


def assert_the_same_numbers(model):
    device = next(model.parameters()).device
    source, _ = several = batch()
    source = source.to(device)
    assert torch.equal(greedy(model, source, 7), greedy(model, source, 7, use_cache=False))
    fast, slow = (beam(model, source, 3, 7, n_best=2, use_cache=use) for use in (True, False))
    assert torch.equal(fast.tokens, slow.tokens)
    assert difference(fast.scores, slow.scores) < 1e-5
    for given in (several, batch((5, 5, 5)), batch(targets=(4, 4, 4))):
        given = [tokens.to(device) for tokens in given]
        padded, packed = (gradients(model, packed, given) for packed in (False, True))
        for a, b in zip(packed, padded, strict=True):
            assert (a is None and b is None) or difference(a, b) < 1e-10


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("preset", "options"), [*((name, {}) for name in MODELS), (None, OTHERS)])
def test_what_its_configuration_makes_is_plain_and_so_are_copies(preset, options, device):
    model = made(preset, **options, d_model=np.int64(16)).to(device)
    model.load_state_dict(made(preset, **options).state_dict())
    own = model.source_embedding.scale
    for scale in (own, 3.0):
        model.source_embedding.scale = scale
        for twin in (model, copy.deepcopy(model), AveragedModel(model).module):
            assert is_plain(twin) == (scale == own)
            assert_the_same_numbers(twin)


# --- Changes --------------------------------------------------------------------------------------


def turned(x):
    """Other numbers, which no norm behind them can put right."""
    return x.roll(1, -1)


def turning(method):
    return lambda *given, **options: turned(method(*given, **options))


def subclassed(path, name):
    def change(model):
        part = model.get_submodule(path)
        methods = {name: turning(getattr(type(part), name))}
        part.__class__ = type("Changed", (type(part),), methods)

    return change


def quantised(model):
    """Weights that may multiply otherwise than their numbers say."""
    part = model.decoder.layers[1].feed_forward.expand
    kind = type("Quantised", (torch.Tensor,), {})
    part.weight = nn.Parameter(part.weight.detach().as_subclass(kind))


HOOKS = {
    "forward": lambda _, __, output: turned(output),
    "forward_pre": lambda _, given: (turned(given[0]), *given[1:]),
    "full_backward": lambda _, got, __: (1.5 * got[0], *got[1:]),
    "full_backward_pre": lambda _, got: (1.5 * got[0], *got[1:]),
}


def hooked(path, kind="forward"):
    return lambda m: getattr(m.get_submodule(path), f"register_{kind}_hook")(HOOKS[kind])


LAST = "decoder.layers.1"
CHANGES = {
    # --- another structure
    "heads of one layer": put("decoder.layers.0.self_attention", n_heads=2),
    "activation of the last layer": put(f"{LAST}.feed_forward", activation=F.silu),
    "one norm has another epsilon": put(f"{LAST}.cross_residual.norm", eps=0.5),
    "one norm is of another kind": put(
        f"{LAST}.feed_forward_residual", norm=nn.RMSNorm(16).double()
    ),
    "a final norm": put("decoder", norm=nn.LayerNorm(16).double()),
    "another scale": put("source_embedding", scale=torch.full((16,), 3.0)),
    "one query has no bias": put(f"{LAST}.self_attention.query", bias=None),
    "other layers in the encoder": put(
        "encoder", layers=nn.ModuleList([EncoderLayer(layer_config(d_ff=7)).double()] * 3)
    ),
    # --- hooks
    "a hook on attention": hooked(f"{LAST}.self_attention"),
    "a hook before a linear layer": hooked(f"{LAST}.cross_attention.value", "forward_pre"),
    "a hook on the generator": hooked("generator"),
    "a backward hook": hooked(f"{LAST}.feed_forward", "full_backward"),
    "a hook before backward": hooked(f"{LAST}.feed_forward", "full_backward_pre"),
    # --- methods and classes
    "a replaced forward of a layer": lambda m: put(
        LAST, forward=turning(m.get_submodule(LAST).forward)
    )(m),
    "a subclassed attention": subclassed(f"{LAST}.self_attention", "forward"),
    "an overridden encode": subclassed("", "encode"),
    "an overridden decode": subclassed("", "decode"),
    # --- weights
    "another query": put(f"{LAST}.self_attention", query=nn.Sequential(nn.Linear(16, 16).double())),
    "another generator": put("", generator=nn.Sequential(nn.Linear(16, 23).double())),
    "weights of another kind": quantised,
    "words that are shortened": put("target_embedding.tokens", max_norm=9.0),
    "a parametrised query": lambda m: weight_norm(m.decoder.layers[1].cross_attention.query),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_model_that_was_changed_is_searched_and_trained_as_it_is(change):
    model = made()
    change(model)
    assert not is_plain(model)
    assert_the_same_numbers(model)


FILE = sys.modules["unmasked.attention"]


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Residual, "forward"), (Residual, "__call__"), (nn.Linear, "forward"), (FILE, "attention")],
)
def test_so_is_one_whose_class_or_file_was_changed_until_that_is_taken_back(
    monkeypatch, owner, name
):
    model = made()
    monkeypatch.setattr(owner, name, turning(getattr(owner, name)))
    assert not is_plain(model)
    assert_the_same_numbers(model)
    monkeypatch.undo()
    assert is_plain(model)


def test_so_is_every_model_while_somebody_listens_to_all_modules():
    def hook(part, _, output):
        return turned(output) if isinstance(part, Residual) else None

    model = made()
    with register_module_forward_hook(hook):
        assert not is_plain(model)
        assert_the_same_numbers(model)
    assert is_plain(model)


# --- Every way hears hooks --------------------------------------------------------------------


def test_the_packed_way_is_gone_where_it_may(monkeypatch):
    calls, original = [], loss.packed_decode
    monkeypatch.setattr(loss, "packed_decode", lambda *a: calls.append(1) or original(*a))
    model, given = made(), batch()
    translation_loss(model, *given, packed=True)
    assert calls == [1]
    translation_loss(model, *given)
    model.encoder.register_forward_hook(lambda *_: None)
    translation_loss(model, *given, packed=True)
    assert calls == [1]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("target_embedding.dropout", "p"),
        (f"{LAST}.cross_attention", "dropout"),
        (f"{LAST}.feed_forward.dropout", "p"),
        (f"{LAST}.cross_residual.dropout", "p"),
    ],
)
def test_packed_dropout_is_applied_in_every_place(path, name):
    """Each place alone drops something, in the packed version as in the padded one."""
    model, given = made(dropout=0.0).train(), batch()
    put(path, **{name: 0.5})(model)
    for packed in (False, True):
        losses = {translation_loss(model, *given, packed=packed).item() for _ in range(5)}
        assert len(losses) == 5


def test_a_generator_that_is_not_plain_is_called_for_many_logits_too(monkeypatch):
    model = made()
    hooked("generator")(model)
    whole = translation_loss(model, *batch())
    monkeypatch.setattr(loss, "MANY", 0)
    in_parts = translation_loss(model, *batch())
    assert difference(in_parts, whole) < 1e-12
