"""Faster versions stand in for plain models only; whatever a model was made into, the numbers stay.

Each change below is made to a small model. Then search with a cache must find what search without
one finds, and the packed loss and its gradient must be those of the padded one.
"""

import copy
from contextlib import ExitStack
from types import MethodType
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
)
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm
from torch.optim.swa_utils import AveragedModel

from helpers import as_target, difference, layer_config, ragged, small_config, small_model
from unmasked import MultiHeadAttention, Transformer, loss
from unmasked.decoder import DecoderLayer
from unmasked.encoder import Encoder, EncoderLayer, Residual
from unmasked.fast.guard import is_plain
from unmasked.feed_forward import FeedForward
from unmasked.loss import translation_loss
from unmasked.search import beam, greedy

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # for embeddings
LENGTHS = [6, 3, 1]
CONFIGS = [
    {},
    {"norm": "pre", "activation": "gelu", "n_decoder_layers": 1},
    {"feed_forward": "conv", "bias": False, "positions": "learned", "tie_embeddings": True},
]


def made(seed=0, **options):
    """Its greedy output is a surprise; without dropout, so that gradients can be compared."""
    torch.manual_seed(seed)
    options = {"dropout": 0.0, "embedding_std": 1.0, "output_bias": True, **options}
    model = small_model(**options)
    with torch.no_grad():
        for part in attentions(model):  # they choose: a small change of them is felt
            part.query.weight.mul_(4)
            part.key.weight.mul_(4)
    return model


def attentions(model):
    return [part for part in model.modules() if isinstance(part, MultiHeadAttention)]


def batch():
    torch.manual_seed(1)
    return ragged(LENGTHS), as_target(ragged([2, 5, 3]))


def logits(model):
    """All modules are called: what the others are compared with."""
    source, target = batch()
    with torch.no_grad():
        return model(source, target)


def gradients(model, packed):
    model.zero_grad()
    found = translation_loss(model, *batch(), smoothing=0.1, packed=packed)
    found.backward()
    return found.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]


def assert_the_same_numbers(model):
    source, _ = batch()
    slow = greedy(model, source, 7, use_cache=False)
    assert torch.equal(greedy(model, source, 7), slow)
    slow = beam(model, source, 3, 7, n_best=2, use_cache=False)
    fast = beam(model, source, 3, 7, n_best=2)
    assert torch.equal(fast.tokens, slow.tokens)
    assert difference(fast.scores, slow.scores) < 1e-5
    (padded, expected), (packed, found) = (gradients(model, packed) for packed in (False, True))
    assert difference(packed, padded) < 1e-12
    assert len(expected) > 20
    for a, b in zip(found, expected, strict=True):
        assert difference(a, b) < 1e-10


# --- Changes: each takes a model and what will undo the change ------------------------------------


def layer(model, side="decoder"):
    """The last one: of the others, too, nothing may be taken for granted."""
    return getattr(model, side).layers[-1]


def turned(x):
    """Other numbers, which no norm behind them can put right."""
    return x.roll(1, -1)


def setting(find, name, value):
    """Sets an attribute of a part."""
    return lambda model, _: setattr(find(model), name, value)


def first(model):
    return model.encoder.layers[0]


def without_bias(*names):
    """In the attention of every layer, alike."""

    def change(model, _):
        for part in attentions(model):
            for name in names:
                part.get_submodule(name).bias = None

    return change


def hooked(find, kind="forward"):
    """A hook that turns what comes out or what goes in, or makes the gradient larger."""

    def change(model, stack):
        part = find(model)
        if kind == "forward":
            handle = part.register_forward_hook(lambda _, __, output: turned(output))
        elif kind == "pre":
            handle = part.register_forward_pre_hook(lambda _, given: (turned(given[0]), *given[1:]))
        else:
            handle = part.register_full_backward_hook(lambda _, got, __: (1.5 * got[0], *got[1:]))
        stack.callback(handle.remove)

    return change


def globally(register, hook):
    return lambda _, stack: stack.callback(register(hook).remove)


def only(kind, change):
    """Of a global hook: for one kind of module."""
    return lambda module, *given: change(*given) if isinstance(module, kind) else None


def patched(find):
    """A method of one module is replaced."""

    def change(model, stack):
        part = find(model)
        original = part.forward

        def other(_, *given, **options):
            return turned(original(*given, **options))

        part.forward = MethodType(other, part)
        stack.callback(lambda: vars(part).pop("forward"))

    return change


def class_patched(kind, name="forward"):
    """A method of all modules of a kind is replaced, or stands in the way of an inherited one."""

    def change(_, stack):
        original = getattr(kind, name)

        def other(self, *given, **options):
            return turned(original(self, *given, **options))

        stack.enter_context(mock.patch.object(kind, name, other))

    return change


def of_class(find, kind, **methods):
    """The part becomes one of a subclass."""

    def change(model, _):
        find(model).__class__ = type("Changed", (kind,), methods)

    return change


class Turned(MultiHeadAttention):
    def forward(self, query, **options):
        return turned(super().forward(query, **options))


def turned_layer(self, *given, **options):
    return turned(DecoderLayer.forward(self, *given, **options))


def turned_encode(self, *given, **options):
    return turned(Transformer.encode(self, *given, **options))


def turned_decode(self, *given, **options):
    return turned(Transformer.decode(self, *given, **options))


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


def wrapped(find, name):
    return lambda model, _: setattr(find(model), name, LowRank(getattr(find(model), name)))


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


def parametrized(model, _):
    parametrize.register_parametrization(layer(model).cross_attention.query, "weight", Doubled())


def weight_normed(model, _):
    linear = weight_norm(layer(model).self_attention.output)
    with torch.no_grad():
        linear.parametrizations.weight.original0.mul_(1.5)


def random_norm():
    norm = nn.LayerNorm(16).double()
    nn.init.normal_(norm.weight)
    return norm


def new_layers(side):
    """All made anew, and alike; of another shape than configured."""

    def change(model, _):
        kind = EncoderLayer if side == "encoder" else DecoderLayer
        old, stack = getattr(model, side).layers[0].config, getattr(model, side)
        config = layer_config(d_ff=7, norm=old.norm, activation=old.activation, bias=old.bias)
        config = layer_config(**{**vars(config), "feed_forward": old.feed_forward})
        stack.layers = nn.ModuleList(kind(config) for _ in range(3)).double()

    return change


def own_sublayers(model, _):
    """Norms where dropout was: in every layer alike, and of kinds that occur elsewhere."""
    for part in model.modules():
        if isinstance(part, Residual):
            part.dropout = random_norm()


def narrow_queries(model, _):
    """In all layers alike, and as many numbers in all as before."""
    for part in attentions(model):
        sizes = {"query": (16, 8), "key": (16, 8), "value": (16, 32), "output": (32, 16)}
        for name, size in sizes.items():
            bias = getattr(part, name).bias is not None
            setattr(part, name, nn.Linear(*size, bias=bias).double())


def linear_feed_forward(model, _):
    for side in (model.encoder, model.decoder):
        for part in side.layers:
            part.feed_forward = nn.Linear(16, 16).double()


def last_of_decoder(name):
    return lambda model: layer(model).get_submodule(name)


CHANGES = {  # that are no longer plain, and felt in every output
    # --- another structure in one layer
    "one layer has other heads": setting(
        lambda m: m.decoder.layers[0].self_attention, "n_heads", 2
    ),
    "one layer of the encoder has other heads": setting(
        lambda m: first(m).self_attention, "n_heads", 2
    ),
    "one cross-attention has other heads": setting(
        last_of_decoder("cross_attention"), "n_heads", 2
    ),
    "one layer has another activation": setting(
        lambda m: m.decoder.layers[0].feed_forward, "activation", F.silu
    ),
    "one layer of the encoder has another activation": setting(
        lambda m: first(m).feed_forward, "activation", F.silu
    ),
    "the last layer has another activation": setting(
        last_of_decoder("feed_forward"), "activation", F.silu
    ),
    "one residual has its norm elsewhere": lambda m, _: setattr(
        layer(m).self_residual, "pre", not layer(m).self_residual.pre
    ),
    "one norm has another epsilon": setting(last_of_decoder("cross_residual.norm"), "eps", 0.5),
    "one norm is another kind of norm": lambda m, _: setattr(
        layer(m).feed_forward_residual, "norm", nn.RMSNorm(16).double()
    ),
    "norms where dropout was": own_sublayers,
    "a linear layer for a feed-forward network": linear_feed_forward,
    "narrow queries and wide values": narrow_queries,
    # --- hooks
    "a hook on attention": hooked(last_of_decoder("self_attention")),
    "a hook on attention in the encoder": hooked(lambda m: first(m).self_attention),
    "a hook before attention": hooked(last_of_decoder("self_attention"), "pre"),
    "a hook on a layer": hooked(layer),
    "a hook before a layer": hooked(layer, "pre"),
    "a hook on a residual": hooked(last_of_decoder("cross_residual")),
    "a hook before a linear layer": hooked(last_of_decoder("cross_attention.value"), "pre"),
    "a hook on the encoder": hooked(lambda m: m.encoder),
    "a hook before the encoder": hooked(lambda m: m.encoder, "pre"),
    "a hook on the decoder": hooked(lambda m: m.decoder),
    "a hook before the decoder": hooked(lambda m: m.decoder, "pre"),
    "a hook on the generator": hooked(lambda m: m.generator),
    "a hook before the generator": hooked(lambda m: m.generator, "pre"),
    "a hook on all modules": globally(
        register_module_forward_hook, only(MultiHeadAttention, lambda _, output: turned(output))
    ),
    "a hook before all modules": globally(
        register_module_forward_pre_hook,
        only(FeedForward, lambda given: (turned(given[0]), *given[1:])),
    ),
    # --- methods
    "a replaced forward of a layer": patched(layer),
    "a replaced forward of a layer in the encoder": patched(first),
    "a replaced forward of attention": patched(last_of_decoder("cross_attention")),
    "a replaced forward of feed-forward": patched(last_of_decoder("feed_forward")),
    "a replaced forward of a residual": patched(last_of_decoder("self_residual")),
    "a replaced forward of a norm": patched(last_of_decoder("self_residual.norm")),
    "a replaced forward of a class": class_patched(Residual),
    "a replaced split of a class": class_patched(MultiHeadAttention, "split"),
    "a replaced forward of all linear layers": class_patched(nn.Linear),
    "a replaced call of a class": class_patched(Residual, "__call__"),
    # --- classes
    "a subclassed attention": of_class(last_of_decoder("self_attention"), Turned),
    "a subclassed attention in the encoder": of_class(lambda m: first(m).self_attention, Turned),
    "a subclassed layer": of_class(layer, DecoderLayer, forward=turned_layer),
    "a subclassed encoder": of_class(
        lambda m: m.encoder,
        Encoder,
        forward=lambda self, x, **options: turned(Encoder.forward(self, x, **options)),
    ),
    "an overridden encode": of_class(lambda m: m, Transformer, encode=turned_encode),
    "an overridden decode": of_class(lambda m: m, Transformer, decode=turned_decode),
    # --- weights
    "a wrapped query": wrapped(last_of_decoder("self_attention"), "query"),
    "a wrapped value": wrapped(lambda m: first(m).self_attention, "value"),
    "a wrapped expansion": wrapped(last_of_decoder("feed_forward"), "expand"),
    "a wrapped generator": wrapped(lambda m: m, "generator"),
    "a parametrised query": parametrized,
    "a normed weight": weight_normed,
}
BIASES = {  # not plain either; felt where there was a bias
    "one query has no bias": setting(last_of_decoder("self_attention.query"), "bias", None),
    "one value has no bias": setting(last_of_decoder("self_attention.value"), "bias", None),
    "one attention has no bias": lambda m, _: [
        setattr(part, "bias", None) for part in layer(m).self_attention.children()
    ],
    "no query has a bias": without_bias("query"),
    "no value has a bias": without_bias("value"),
    "only queries have a bias": without_bias("key", "value"),
}
SILENT = {  # not plain, and no output feels it
    "no key has a bias": without_bias("key"),
    "one key has no bias": setting(last_of_decoder("self_attention.key"), "bias", None),
    "a hook that listens": lambda m, stack: stack.callback(
        layer(m).register_forward_hook(lambda *_: None).remove
    ),
    "a backward hook": hooked(last_of_decoder("feed_forward"), "backward"),
    "a backward hook on attention": hooked(last_of_decoder("cross_attention"), "backward"),
    "a hook before backward": lambda m, stack: stack.callback(
        layer(m)
        .feed_forward.register_full_backward_pre_hook(lambda _, got: (1.5 * got[0], *got[1:]))
        .remove
    ),
    "a backward hook on all modules": globally(
        register_module_full_backward_hook,
        only(FeedForward, lambda got, _: tuple(1.5 * g for g in got)),
    ),
}
ALIKE = {
    "nothing": lambda *_: None,
    "no attention has a bias": without_bias("query", "key", "value", "output"),
    "other heads everywhere": lambda m, _: [setattr(a, "n_heads", 2) for a in attentions(m)],
    "another activation everywhere": lambda m, _: [
        setattr(part, "activation", F.silu) for part in m.modules() if isinstance(part, FeedForward)
    ],
    "another final norm": setting(lambda m: m.decoder, "norm", random_norm()),
    "one layer over and over": lambda m, _: setattr(
        m.encoder, "layers", nn.ModuleList([m.encoder.layers[0]] * 3)
    ),
    "other layers in the encoder": new_layers("encoder"),
    "other layers in the decoder": new_layers("decoder"),
    "other weights": lambda m, _: m.load_state_dict(made(seed=5, **options_of(m)).state_dict()),
    "frozen weights": lambda m, _: m.encoder.layers.requires_grad_(False),
}


def options_of(model):
    """What `made` needs for another one of the kind."""
    ours, default = vars(model.config), vars(small_config())
    return {name: value for name, value in ours.items() if value != default[name]}


@pytest.mark.parametrize("options", CONFIGS, ids=["post-norm", "pre-norm", "convolutions"])
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


@pytest.mark.parametrize("name", BIASES | SILENT)
def test_a_change_that_is_hardly_felt_is_one(name):
    model = made()
    before = logits(model)
    with ExitStack() as stack:
        (BIASES | SILENT)[name](model, stack)
        moved = difference(logits(model), before)
        assert moved > 1e-3 if name in BIASES else moved < 1e-12
        assert not is_plain(model)
        assert_the_same_numbers(model)


@pytest.mark.parametrize("options", CONFIGS, ids=["post-norm", "pre-norm", "convolutions"])
@pytest.mark.parametrize("name", ALIKE)
def test_a_model_that_was_changed_alike_in_all_layers_is_searched_as_it_is(name, options):
    model = made(**options)
    with ExitStack() as stack:
        ALIKE[name](model, stack)
        assert_the_same_numbers(model)


def test_what_is_taken_back_leaves_a_plain_model():
    changes = [name for name in CHANGES if "hook" in name or "replaced" in name]
    assert len(changes) > 20
    for name in changes:
        model = made()
        with ExitStack() as stack:
            CHANGES[name](model, stack)
            assert not is_plain(model)
        assert is_plain(model)


def test_compiling_changes_no_model():
    model, (source, target) = made(), batch()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        assert difference(compiled(source, target), model(source, target)) < 1e-12
    assert is_plain(model)
    assert is_plain(made())


def test_copies_are_as_plain_as_what_they_were_made_of():
    model = made(tie_embeddings=True)
    expected = logits(model)
    for twin in (copy.deepcopy(model), AveragedModel(model).module):
        assert twin.generator.weight is twin.target_embedding.tokens.weight
        assert is_plain(twin)
        assert torch.equal(logits(twin), expected)
        assert_the_same_numbers(twin)
    model.decoder.layers[0].feed_forward.activation = F.silu
    changed = logits(model)
    assert difference(changed, expected) > 1e-3
    for twin in (copy.deepcopy(model), AveragedModel(model).module):
        assert not is_plain(twin)
        assert torch.equal(logits(twin), changed)
        assert_the_same_numbers(twin)


@pytest.mark.parametrize("name", [name for name in SILENT if "backward" in name])
def test_a_backward_hook_is_heard(name):
    model = made()
    _, before = gradients(model, packed=True)
    with ExitStack() as stack:
        (CHANGES | SILENT)[name](model, stack)
        _, after = gradients(model, packed=True)
    assert max(difference(a, b) for a, b in zip(before, after, strict=True)) > 1e-6


@pytest.mark.parametrize("find", [first, layer, lambda m: m.encoder, lambda m: m.decoder])
def test_every_hook_is_called_by_every_way(find):
    """As often by the packed loss as by the padded one, and at each step of a search."""
    model, (source, target), calls = made(), batch(), []
    handle = find(model).register_forward_hook(lambda *_: calls.append(1))
    translation_loss(model, source, target, packed=True)
    assert len(calls) == 1
    calls.clear()
    steps = greedy(model, source, 5, drop_finished=False).shape[1]
    assert len(calls) == (steps if find(model) in model.decoder.modules() else 1)
    handle.remove()


def test_the_packed_way_is_gone_where_it_may(monkeypatch):
    calls, original = [], loss.packed_decode
    monkeypatch.setattr(loss, "packed_decode", lambda *a: calls.append(1) or original(*a))
    model, (source, target) = made(), batch()
    translation_loss(model, source, target, packed=True)
    assert calls == [1]
    translation_loss(model, source, target)
    handle = model.encoder.register_forward_hook(lambda *_: None)
    translation_loss(model, source, target, packed=True)
    assert calls == [1]
    handle.remove()
    translation_loss(model, source, target, packed=True)
    assert calls == [1, 1]


@pytest.mark.parametrize("name", ["a hook on the generator", "a wrapped generator"])
def test_a_generator_that_is_not_plain_is_called_for_many_logits_too(monkeypatch, name):
    monkeypatch.setattr(loss, "MANY", 0)
    model = made()
    before, _ = gradients(model, packed=False)
    with ExitStack() as stack:
        CHANGES[name](model, stack)
        in_parts, _ = gradients(model, packed=False)
        monkeypatch.setattr(loss, "MANY", 1 << 20)
        whole, _ = gradients(model, packed=False)
    assert difference(in_parts, whole) < 1e-12
    assert difference(in_parts, before) > 1e-3


# --- Any structure --------------------------------------------------------------------------------

SEEN = "n_heads", "norm", "norm_eps", "feed_forward", "activation"  # that all layers share
shapes = st.fixed_dictionaries(
    {
        "n_heads": st.sampled_from([1, 2, 4]),
        "d_ff": st.sampled_from([8, 24]),
        "norm": st.sampled_from(["post", "pre"]),
        "norm_eps": st.sampled_from([1e-5, 0.1]),
        "feed_forward": st.sampled_from(["linear", "conv"]),
        "activation": st.sampled_from(["relu", "gelu"]),
        "bias": st.booleans(),
        "attention_bias": st.sampled_from([None, True, False]),
    }
)


@settings(max_examples=40)
@given(
    st.lists(shapes, min_size=1, max_size=2), st.lists(shapes, min_size=1, max_size=2), st.data()
)
def test_layers_of_any_shape_in_any_order(encoder, decoder, data):
    model = made(final_norm=data.draw(st.booleans()))
    model.encoder.layers = nn.ModuleList(EncoderLayer(layer_config(**shape)) for shape in encoder)
    model.decoder.layers = nn.ModuleList(DecoderLayer(layer_config(**shape)) for shape in decoder)
    model.double().eval()
    every = encoder + decoder
    if any(shape[name] != every[0][name] for shape in every for name in SEEN):
        assert not is_plain(model)
    assert_the_same_numbers(model)


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([*CHANGES, *BIASES, *SILENT, *ALIKE]), unique=True, max_size=3),
    st.sampled_from(CONFIGS),
)
def test_several_changes_at_once(names, options):
    model, every = made(**options), CHANGES | BIASES | SILENT | ALIKE
    with ExitStack() as stack:
        for name in names:
            try:
                every[name](model, stack)
            except AttributeError:  # what it would change is gone by now
                continue
        if set(names) <= {"nothing", "frozen weights", "other weights"}:
            assert is_plain(model)
        assert_the_same_numbers(model)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # the compiler's own look
def test_a_compiled_packed_loss_hears_hooks_too():
    model = made()
    model.encoder.layers[0].self_attention.register_forward_hook(lambda _, a, out: out * 3)
    expected = translation_loss(model, *batch())
    compiled = torch.compile(
        lambda: translation_loss(model, *batch(), packed=True), backend="eager"
    )
    assert difference(compiled(), expected) < 1e-12


class Quantised(torch.Tensor):
    """A weight that multiplies otherwise than its numbers say, as quantised ones do."""


def test_weights_of_another_kind_are_not_read():
    model = made()
    assert is_plain(model)
    weight = model.decoder.layers[0].feed_forward.expand.weight
    other = nn.Parameter(weight.detach().as_subclass(Quantised))
    model.decoder.layers[0].feed_forward.expand.weight = other
    assert type(other) is not nn.Parameter
    assert not is_plain(model)


def test_a_source_beyond_learned_positions_is_refused_by_every_entrance():
    model = made(positions="learned", max_len=4)
    source, target = torch.full((1, 5), 3), torch.tensor([[1, 3, 2]])
    for call in (
        lambda: model(source, target),
        lambda: model.encode(source),
        lambda: greedy(model, source, 2),
        lambda: beam(model, source, 2, 2),
        lambda: translation_loss(model, source, target),
        lambda: translation_loss(model, source, target, packed=True),
    ):
        with pytest.raises(ValueError, match="positions: expected positions below max_len=4"):
            call()
