"""Faster versions stand in for plain models only; whatever a model was made into, the numbers stay.

Each change below is made to a small model. Then search with a cache must find what search without
one finds, and the packed loss and its gradient must be those of the padded one.
"""

import copy
import sys
from contextlib import ExitStack
from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parametrize
from torch.optim.swa_utils import AveragedModel

from helpers import as_target, difference, layer_config, ragged, small_config, small_model
from unmasked import MultiHeadAttention, loss
from unmasked.encoder import EncoderLayer, Residual
from unmasked.fast.guard import is_plain
from unmasked.feed_forward import FeedForward
from unmasked.loss import translation_loss
from unmasked.search import beam, greedy

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # for embeddings
CONFIGS = {
    "post-norm": {},
    "pre-norm, convolutions": {
        "norm": "pre", "activation": "gelu", "feed_forward": "conv", "bias": False,
        "n_decoder_layers": 1, "positions": "learned", "tie_embeddings": True,
    },
}  # fmt: skip
in_each_configuration = pytest.mark.parametrize("options", CONFIGS.values(), ids=CONFIGS)


def made(seed=0, **options):
    """Its greedy output is a surprise; without dropout, so that gradients can be compared."""
    torch.manual_seed(seed)
    options = {"dropout": 0.0, "embedding_std": 1.0, "output_bias": True, **options}
    model = small_model(**options)
    with torch.no_grad():
        for part in parts(model, MultiHeadAttention):  # they choose: a small change is felt
            part.query.weight.mul_(4)
            part.key.weight.mul_(4)
    return model


def parts(model, kind):
    return [part for part in model.modules() if isinstance(part, kind)]


def find(model, path):
    """`first` is the encoder's first layer, `last` the decoder's last."""
    last = f"decoder.layers.{len(model.decoder.layers) - 1}"
    return model.get_submodule(path.replace("first", "encoder.layers.0").replace("last", last))


def batch():
    torch.manual_seed(1)
    return ragged([6, 3, 1]), as_target(ragged([2, 5, 3]))


def logits(model):
    """All modules are called: what the others are compared with."""
    with torch.no_grad():
        return model(*batch())


def gradients(model, packed):
    model.zero_grad()
    found = translation_loss(model, *batch(), smoothing=0.1, packed=packed)
    found.backward()
    return found.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]


def assert_the_same_numbers(model):
    source, _ = batch()
    assert torch.equal(greedy(model, source, 7), greedy(model, source, 7, use_cache=False))
    fast, slow = (beam(model, source, 3, 7, n_best=2, use_cache=use) for use in (True, False))
    assert torch.equal(fast.tokens, slow.tokens)
    assert difference(fast.scores, slow.scores) < 1e-5
    (padded, expected), (packed, found) = (gradients(model, packed) for packed in (False, True))
    assert difference(packed, padded) < 1e-12
    assert len(expected) > 20
    for a, b in zip(found, expected, strict=True):
        assert difference(a, b) < 1e-10


# --- Changes: each takes a model and what will undo the change ------------------------------------


def turned(x):
    """Other numbers, which no norm behind them can put right."""
    return x.roll(1, -1)


def turning(method):
    return lambda *given, **options: turned(method(*given, **options))


def setting(path, **options):
    def change(model, _):
        for name, value in options.items():
            setattr(find(model, path), name, value)

    return change


def setting_all(kind, **options):
    """In every part of a kind alike."""
    return lambda model, _: [vars(part).update(options) for part in parts(model, kind)]


def without_bias(*names):
    """In the attention of every layer alike."""

    def change(model, _):
        for part in parts(model, MultiHeadAttention):
            for name in names:
                part.get_submodule(name).bias = None

    return change


HOOKS = {
    "forward": lambda _, __, output: turned(output),
    "forward_pre": lambda _, given: (turned(given[0]), *given[1:]),
    "full_backward": lambda _, got, __: (1.5 * got[0], *got[1:]),
    "full_backward_pre": lambda _, got: (1.5 * got[0], *got[1:]),
    "listening": lambda *_: None,
}


def hooked(path, kind="forward", hook=None):
    def change(model, stack):
        register = getattr(find(model, path), f"register_{kind}_hook")
        stack.callback(register(HOOKS[hook or kind]).remove)

    return change


def hooked_everywhere(register, kind, module):
    """A hook on all modules, that is felt in those of one class."""

    def hook(part, *given):
        return HOOKS[kind](part, *given) if isinstance(part, module) else None

    return lambda _, stack: stack.callback(register(hook).remove)


def patched(path):
    """A method of one module is replaced."""

    def change(model, stack):
        part = find(model, path)
        part.forward = turning(part.forward)
        stack.callback(lambda: vars(part).pop("forward"))

    return change


def class_patched(kind, name="forward"):
    """A method of all modules of a kind, or a function that they call, is replaced."""

    def change(_, stack):
        stack.enter_context(mock.patch.object(kind, name, turning(getattr(kind, name))))

    return change


def subclassed(path, name="forward"):
    def change(model, _):
        part = find(model, path)
        methods = {name: turning(getattr(type(part), name))}
        part.__class__ = type("Changed", (type(part),), methods)

    return change


class LowRank(nn.Module):
    """As LoRA does: what a linear layer says, and a correction of low rank."""

    def __init__(self, linear):
        super().__init__()
        self.linear, self.weight, self.bias = linear, linear.weight, linear.bias
        wide, narrow = linear.weight.shape[:2]
        self.down = nn.Linear(narrow, 2, bias=False).to(linear.weight)
        self.up = nn.Linear(2, wide, bias=False).to(linear.weight)

    def forward(self, x):
        return self.linear(x) + self.up(self.down(x))


def wrapped(path):
    parent, _, name = path.rpartition(".")
    return lambda model, _: setattr(find(model, parent), name, LowRank(find(model, path)))


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


def parametrized(model, _):
    query = find(model, "last.cross_attention.query")
    parametrize.register_parametrization(query, "weight", Doubled())


def new_layers(model, _):
    """The encoder's all made anew, and alike; of another shape than configured."""
    names = ("norm", "activation", "bias", "feed_forward")
    old = {name: getattr(model.encoder.layers[0].config, name) for name in names}
    config = layer_config(d_ff=7, **old)
    model.encoder.layers = nn.ModuleList(EncoderLayer(config) for _ in range(3)).double()


CHANGES = {  # that are no longer plain, and felt in every output
    # --- another structure in one layer
    "heads of one layer": setting("decoder.layers.0.self_attention", n_heads=2),
    "activation of the last layer": setting("last.feed_forward", activation=F.silu),
    "one residual has its norm elsewhere": lambda model, _: setattr(
        find(model, "last.self_residual"), "pre", not find(model, "first.attention_residual").pre
    ),
    "one norm has another epsilon": setting("last.cross_residual.norm", eps=0.5),
    "one norm is of another kind": setting(
        "last.feed_forward_residual", norm=nn.RMSNorm(16).double()
    ),
    "another scale": setting("source_embedding", scale=torch.full((16,), 3.0)),
    # --- hooks
    "a hook on attention": hooked("last.self_attention"),
    "a hook before a linear layer": hooked("last.cross_attention.value", "forward_pre"),
    "a hook on the encoder": hooked("encoder"),
    "a hook on the generator": hooked("generator"),
    "a hook on all modules": hooked_everywhere(
        register_module_forward_hook, "forward", MultiHeadAttention
    ),
    # --- methods
    "a replaced forward of a layer": patched("last"),
    "a replaced forward of a class": class_patched(Residual),
    "a replaced function of a file": class_patched(sys.modules["unmasked.attention"], "attention"),
    "a replaced forward of all linear layers": class_patched(nn.Linear),
    "a replaced call of a class": class_patched(Residual, "__call__"),
    # --- classes
    "a subclassed attention": subclassed("last.self_attention"),
    "an overridden encode": subclassed("", "encode"),
    "an overridden decode": subclassed("", "decode"),
    # --- weights
    "a wrapped query": wrapped("last.self_attention.query"),
    "a wrapped generator": wrapped("generator"),
    "a parametrised query": parametrized,
}
HARDLY = {  # not plain either
    # --- felt where there was a bias
    "one query has no bias": setting("last.self_attention.query", bias=None),
    "no value has a bias": without_bias("value"),
    # --- felt in gradients only, or by nothing
    "a backward hook": hooked("last.feed_forward", "full_backward"),
    "a hook before backward": hooked("last.feed_forward", "full_backward_pre"),
    "no key has a bias": without_bias("key"),
    "a hook that listens": hooked("last", hook="listening"),
}
PLAIN = {
    "nothing": lambda *_: None,
    "other weights": lambda m, _: m.load_state_dict(made(seed=5, **options_of(m)).state_dict()),
}
ALIKE = {  # in all layers
    "no attention has a bias": without_bias("query", "key", "value", "output"),
    "other heads everywhere": setting_all(MultiHeadAttention, n_heads=2),
    "another activation everywhere": setting_all(FeedForward, activation=F.silu),
    "another final norm": setting("decoder", norm=nn.LayerNorm(16, eps=0.1).double()),
    "one layer over and over": lambda m, _: setattr(
        m.encoder, "layers", nn.ModuleList([find(m, "first")] * 3)
    ),
    "other layers in the encoder": new_layers,
}


def options_of(model):
    """What `made` needs for another one of the kind."""
    ours, default = vars(model.config), vars(small_config())
    return {name: value for name, value in ours.items() if value != default[name]}


@in_each_configuration
@pytest.mark.parametrize("name", CHANGES)
def test_a_model_that_was_changed_is_searched_and_trained_as_it_is(name, options):
    model = made(**options)
    before = logits(model)
    assert is_plain(model)
    with ExitStack() as stack:
        CHANGES[name](model, stack)
        assert difference(logits(model), before) > 1e-3
        assert not is_plain(model)
        assert_the_same_numbers(model)
    if "hook" in name or "replaced" in name:  # what is taken back leaves a plain model
        assert is_plain(model)


@pytest.mark.parametrize("name", HARDLY)
def test_a_change_that_is_hardly_felt_is_one(name):
    model = made()
    before = logits(model)
    with ExitStack() as stack:
        HARDLY[name](model, stack)
        moved = difference(logits(model), before)
        felt = name in ("one query has no bias", "no value has a bias")
        assert moved > 1e-3 if felt else moved < 1e-12
        assert not is_plain(model)
        assert_the_same_numbers(model)


@in_each_configuration
@pytest.mark.parametrize("name", PLAIN | ALIKE)
def test_a_model_that_was_changed_alike_in_all_layers_is_searched_as_it_is(name, options):
    model = made(**options)
    (PLAIN | ALIKE)[name](model, None)
    assert is_plain(model) or name in ALIKE
    assert_the_same_numbers(model)


def test_copies_are_as_plain_as_what_they_were_made_of():
    model = made(tie_embeddings=True, d_model=np.int64(16))
    for plain in (True, False):
        setting("first.feed_forward", activation=F.relu if plain else F.silu)(model, None)
        for twin in (copy.deepcopy(model), AveragedModel(model).module):
            assert twin.generator.weight is twin.target_embedding.tokens.weight
            assert is_plain(twin) == plain
            assert torch.equal(logits(twin), logits(model))
            assert_the_same_numbers(twin)


def test_weights_of_another_kind_are_not_read():
    """Quantised ones multiply otherwise than their numbers say; shortened ones change."""
    for side in ("source", "target"):
        model = made()
        setting(f"{side}_embedding.tokens", max_norm=0.5)(model, None)
        assert not is_plain(model)
    model = made()
    part = find(model, "last.feed_forward.expand")
    kind = type("Quantised", (torch.Tensor,), {})
    part.weight = nn.Parameter(part.weight.detach().as_subclass(kind))
    assert not is_plain(model)


# --- Every way hears hooks --------------------------------------------------------------------


def test_the_packed_way_is_gone_where_it_may(monkeypatch):
    calls, original = [], loss.packed_decode
    monkeypatch.setattr(loss, "packed_decode", lambda *a: calls.append(1) or original(*a))
    model, given = made(), batch()
    translation_loss(model, *given, packed=True)
    assert calls == [1]
    translation_loss(model, *given)
    model.encoder.register_forward_hook(HOOKS["listening"])
    translation_loss(model, *given, packed=True)
    assert calls == [1]


@pytest.mark.parametrize("name", ["a hook on the generator", "a wrapped generator"])
def test_a_generator_that_is_not_plain_is_called_for_many_logits_too(monkeypatch, name):
    model = made()
    before, _ = gradients(model, packed=False)
    with ExitStack() as stack:
        CHANGES[name](model, stack)
        whole, _ = gradients(model, packed=False)
        monkeypatch.setattr(loss, "MANY", 0)
        in_parts, _ = gradients(model, packed=False)
    assert difference(in_parts, whole) < 1e-12
    assert difference(in_parts, before) > 1e-3
