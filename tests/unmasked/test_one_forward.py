"""Compares packing, steps, searches and maps with a padded batch, for many changed models."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from helpers import MODELS, VOCABULARY, as_target, difference, put, ragged, small_model
from unmasked import MultiHeadAttention, attention, masks
from unmasked.encoder import Residual
from unmasked.feed_forward import FeedForward
from unmasked.layers import Linear
from unmasked.looks import Layout
from unmasked.loss import hidden_states, translation_loss
from unmasked.masks import causal_mask, padding_mask
from unmasked.search import Steps, beam, greedy

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing|packed. padding stays")


def made(preset=None, **options):
    torch.manual_seed(1)
    return small_model(preset, **{"embedding_std": 1.0, "output_bias": True, **options})


def batch():
    torch.manual_seed(2)
    return ragged([7, 4, 1]), ragged([6, 2, 5])


# --- Ways to compute the logits of the target's real positions, [N, V] ------------------------


def padded(model, source, target):
    return model(source, target)[target != 0]


def packed(model, source, target):
    real = target != 0
    return model.generator(hidden_states(model, source, target, real, True))


def with_maps(model, source, target):
    return model(source, target, need_weights=True)[0][target != 0]


def in_pieces(model, source, target, pieces):
    memory, mask, state = model.encode(source), padding_mask(source), model.start(2)
    found = [model.decode(piece, memory, source_mask=mask, state=state)
             for piece in target.split(pieces, dim=1)]  # fmt: skip
    return model.generator(torch.cat(found, dim=1))[target != 0]


def by_search(model, source, target):
    steps, first = Steps(model, source, 1, 6), torch.zeros_like(target[:, :1])
    logits = [steps.step(token[:, None], first) for token in target.unbind(1)]
    return torch.cat(logits, dim=1)[target != 0]


def one_by_one(model, source, target):
    pairs = [(s[s != 0][None], t[t != 0][None]) for s, t in zip(source, target, strict=True)]
    return torch.cat([by_search(model, *pair) for pair in pairs])


def by_beam(model, source, target):
    """Computes the target as one of three hypotheses, in another place at each step."""
    steps = Steps(model, source, 3, 6)
    others, place, found = torch.randint(3, VOCABULARY, (*target.shape, 3)), 0, []
    for time in range(target.shape[1]):
        parents = torch.randint(3 if time else 1, (len(source), 3))
        parents[:, (place + 1) % 3], place = place, (place + 1) % 3
        others[:, time, place] = target[:, time]
        found.append(steps.step(others[:, time], parents)[:, place])
    return torch.stack(found, dim=1)[target != 0]


by_steps, in_chunks = (partial(in_pieces, pieces=pieces) for pieces in (1, [3, 1, 2]))
WAYS = [packed, with_maps, by_steps, in_chunks, by_search, one_by_one, by_beam]


def assert_all_ways_agree(make):
    """Compares logits and gradients in float64, and searches in float32 (with laid-out weights)."""
    model, given, gradients = make(), batch(), []
    with torch.no_grad():
        expected = padded(model, *given)
        for way in WAYS:
            assert difference(way(model, *given)[:, 1:], expected[:, 1:]) < 1e-10, way
    single = make().float()
    with torch.inference_mode():
        wanted = padded(single, *given)[:, 1:]
        for way in (by_search, one_by_one, by_beam) * 2:
            found = way(single, *given)[:, 1:]
            assert difference(found, wanted) < 1e-5 * wanted.abs().max().clamp(min=1), way
    parameters = [p for p in model.parameters() if p.requires_grad]
    for way in (padded, packed, by_steps):
        value = way(model, *given).logsumexp(-1).mean()
        gradients.append(torch.autograd.grad(value, parameters, allow_unused=True))
    for first, *others in zip(*gradients, strict=True):
        for other in others:
            assert (first is other is None) or difference(first, other) < 1e-10
    return expected


# --- Structures and changes -------------------------------------------------------------------


def turned(x):
    return x.roll(1, -1)  # a norm cannot undo this


def turning(method):
    return lambda *given, **options: turned(method(*given, **options))


def new(end, **makers):
    """Puts newly made attributes into every module whose path ends so."""

    def change(model):
        for each in parts(model, end):
            put("", **{name: make() for name, make in makers.items()})(each)

    return change


def hooked(path, hook=lambda _, __, output: turned(output), kind="forward"):
    return lambda model: getattr(model.get_submodule(path), f"register_{kind}_hook")(hook)


def quantised(model):
    """Replaces a weight by a subclass of Tensor, whose products may be others."""
    part = model.decoder.layers[1].feed_forward.expand
    kind = type("Quantised", (torch.Tensor,), {"__deepcopy__": lambda self, _: self})
    part.weight = nn.Parameter(part.weight.detach().as_subclass(kind))


class Rotary(MultiHeadAttention):
    """This attention turns queries twice as far as keys, so that absolute positions count."""

    by_position = True

    def project(self, x, y, look, value=None):
        q, k, v = super().project(x, y, look, value)
        return self.turned(q, 2 * look.places(q)), self.turned(k, look.places(q)), v

    def turned(self, x, places):
        angles = places[:, None] * 100.0 ** -torch.arange(x.shape[-1] // 2).double()
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * (1j * angles).exp()).view(x.shape).to(x)


def parts(model, *ends):
    return [each for path, each in model.named_modules() if path.endswith(ends)]


class ByDistance(nn.Embedding):
    """This bias learns a number for each distance and head, like T5's."""

    def forward(self, apart):
        return super().forward((apart + 9).clamp(0, 18)).permute(2, 0, 1)


def shared(model):
    layers = model.decoder.layers
    layers[1].cross_attention.query = layers[1].self_attention.query
    layers[0].self_attention.output = layers[0].self_attention.query
    layers[0].cross_attention = layers[0].self_attention
    layers[1].cross_attention.key = layers[1].self_attention.output


LAST = "decoder.layers.1"
STRUCTURES = {
    **{name: partial(made, name) for name in MODELS},
    "pre, without biases": partial(made, norm="pre", bias=False, n_decoder_layers=1),
    "gelu and ties": partial(made, norm="pre", activation="gelu", tie_embeddings=True),
    "post, with a final norm": partial(made, final_norm=True, tie_embeddings="output"),
    "learned positions up to the last": partial(made, positions="learned", max_len=7),
    "positions beyond the table": partial(made, max_len=2),
    "convolutions": partial(made, feed_forward="conv"),
    "sizes of numpy": partial(made, d_model=np.int64(16)),
}
CHANGES = {
    "heads of one layer": put("decoder.layers.0.self_attention", n_heads=2),
    "one query without a bias": put(f"{LAST}.self_attention.query", bias=None),
    "shared parts": shared,
    # --- hooks
    **{f"a hook on {path}": hooked(path) for path in (f"{LAST}.self_attention",
        f"{LAST}.self_attention.query", "target_embedding", "generator")},
    "a hook before a linear layer": hooked(f"{LAST}.cross_attention.value",
        lambda _, given: (turned(given[0]),), "forward_pre"),
    "a backward hook": hooked(f"{LAST}.feed_forward",
        lambda _, got, __: (1.5 * got[0], *got[1:]), "full_backward"),
    # --- methods and classes
    "a replaced forward": lambda m: put(LAST, forward=turning(m.get_submodule(LAST).forward))(m),
    "a subclassed attention": put(f"{LAST}.self_attention", __class__=type(
        "Changed", (MultiHeadAttention,), {"forward": turning(MultiHeadAttention.forward)})),
    "another encode": lambda m: put("", encode=turning(m.encode))(m),
    "another decode": lambda m: put("", decode=turning(m.decode))(m),
    # --- weights
    "another query": new(f"{LAST}.self_attention", query=lambda: nn.Sequential(nn.Linear(16, 16))),
    "another generator": lambda m: put("", generator=nn.Sequential(nn.Linear(16, VOCABULARY)))(m),
    "weights of another kind": quantised,
    "a parametrised query": lambda m: weight_norm(m.decoder.layers[1].cross_attention.query),
    "frozen keys": lambda m: [each.requires_grad_(False) for each in parts(m, ".key", ".value")],
    # --- another attention
    "rotary positions": new("self_attention", __class__=lambda: Rotary),
    "fewer heads of keys, wider values": new("_attention", key=lambda: Linear(16, 8),
        value=lambda: Linear(16, 12), output=lambda: Linear(24, 16)),
    "alternating windows": put(f"{LAST}.self_attention", rule=lambda n, past=0, **options:
        ~causal_mask(n, past=past, **options).tril(past - 2)),
    "a bias by distance": new("self_attention", score_bias=partial(ByDistance, 19, 4)),
    "slopes, as ALiBi": new("self_attention", score_bias=lambda: lambda apart:
        -apart.abs() * torch.tensor([0.5, 0.25, 0.1, 0.9])[:, None, None]),
    "sinks": new("self_attention", sinks=lambda: nn.Parameter(torch.randn(4))),
}  # fmt: skip
SILENT = "a backward hook", "weights of another kind", "a parametrised query", "frozen keys"


def changed(name):
    model = made()
    CHANGES[name](model)
    return model.double()


@pytest.mark.parametrize("make", STRUCTURES.values(), ids=STRUCTURES)
def test_every_structure_is_the_same_in_every_way(make):
    assert_all_ways_agree(make)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_holds_in_every_way(name):
    with torch.no_grad():
        before = padded(made(), *batch())
    after = assert_all_ways_agree(partial(changed, name))
    assert torch.equal(before, after) == (name in SILENT)


def patched(owner, name, change=turning):
    return mock.patch.object(owner, name, change(getattr(owner, name)))


def windowed(causal):
    return lambda n, *, past=0, **options: causal(n, past=past, **options).triu(past - 2)


PATCHES = {
    "PyTorch's linear layer": partial(patched, nn.Linear, "forward"),
    "our linear layer": partial(patched, Linear, "forward"),
    "the feed-forward network": partial(patched, FeedForward, "forward"),
    "a window of three": partial(patched, masks, "causal_mask", windowed),
    "scores over K": partial(patched, attention, "attention", lambda f: partial(f, scale=0.25)),
    "a hook on all modules": lambda: nn.modules.module.register_module_forward_hook(
        lambda part, _, output: turned(output) if isinstance(part, Residual) else None
    ),
}


@pytest.mark.parametrize("how", PATCHES.values(), ids=PATCHES)
def test_so_does_what_somebody_patches_until_it_is_taken_back(how):
    with torch.no_grad():
        before = padded(made(), *batch())
    assert_all_ways_agree(made)
    with how():
        assert not torch.equal(assert_all_ways_agree(made), before)
    assert torch.equal(assert_all_ways_agree(made), before)


# --- Packing, and steps ------------------------------------------------------------------------


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
    "part",
    ["target_embedding.dropout", f"{LAST}.cross_attention"]
    + [f"{LAST}.{each}.dropout" for each in ("feed_forward", "cross_residual")],
)
def test_dropout_is_applied_in_every_place(part):
    model, (source, target) = made(dropout=0.0).train(), batch()
    put(part, **{"dropout" if "attention" in part else "p": 0.5})(model)
    for packs in (False, True):
        given = model, source, as_target(target)
        assert len({translation_loss(*given, packed=packs).item() for _ in range(5)}) == 5


def test_steps_go_on_where_sentences_end_and_after_a_step_that_failed():
    for name, heads in (("rotary positions", 4), ("fewer heads of keys, wider values", 2)):
        model, (source, target) = changed(name), batch()
        memory, mask, state = model.encode(source), padding_mask(source), model.start()
        whole = model.decode(target, memory, source_mask=mask)
        given = {"source_mask": mask, "state": state}
        model.decode(target[:, :3], memory, **given)
        assert state.looks[0][0].keys.shape[1] == state.looks[0][1].kept[0].shape[1] == heads
        broken = mock.patch.object(model.decoder.layers[1], "forward", side_effect=MemoryError)
        with broken, pytest.raises(MemoryError):
            model.decode(target[:, 3:], memory, **given)
        rows = torch.tensor([0, 2])
        state.select(rows)
        rest = model.decode(target[rows, 3:], memory[rows], source_mask=mask[rows], state=state)
        assert difference(rest, whole[rows, 3:]) < 1e-12


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
