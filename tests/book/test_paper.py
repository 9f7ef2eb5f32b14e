"""Tests what the page about the paper states and no other test proves."""

import inspect
from functools import partial

import pytest
import torch
from torch import nn

from helpers import operations, small_config, small_model
from unmasked import MultiHeadAttention, TransformerConfig, attention
from unmasked.encoder import EncoderLayer, Residual
from unmasked.feed_forward import FeedForward
from unmasked.masks import padding_mask
from unmasked.positions import sinusoids
from unmasked.search import EXTRA_LENGTH, beam
from unmasked.training.recipe import Recipe, optimizer_for
from unmasked_book import recorded
from unmasked_book.costs import calls

VOCABULARIES = {"source_vocab": 9, "target_vocab": 9}


def test_the_papers_numbers_are_our_defaults():
    sizes = ("d_model", "n_heads", "d_ff", "n_layers", "decoder_layers", "dropout", "norm")
    base, big = (TransformerConfig.preset(name, **VOCABULARIES) for name in ("base", "big"))
    for config in (TransformerConfig(**VOCABULARIES), base):
        assert [getattr(config, name) for name in sizes] == [512, 8, 2048, 6, 6, 0.1, "post"]
        assert (config.positions, config.scale_embeddings) == ("sinusoidal", True)
        assert config.dropout_inside == (0.0 if config.tie_embeddings else 0.1)
        heads = attention.heads(torch.zeros(1, 3, 512), config.n_heads, 1)
        assert heads.shape == (1, 8, 3, 64)
    assert (big.dropout, big.dropout_inside) == (0.3, 0.0)
    search = inspect.signature(beam).parameters
    assert (search["beam_size"].default, search["length_penalty"].default) == (4, 0.6)
    assert EXTRA_LENGTH == 50
    for optimizer in ("adam", "adamw"):
        made = optimizer_for(nn.Linear(2, 2), Recipe(optimizer=optimizer)).defaults
        assert (made["betas"], made["eps"]) == ((0.9, 0.98), 1e-9)
    ours = Recipe()
    assert (ours.smoothing, ours.clip) == (0.1, 1.0)
    assert (ours.optimizer, ours.schedule) == ("adamw", "trapezoid")


@pytest.mark.parametrize("name", ["en-de", "de-en"])
def test_the_numbers_of_the_shipped_models_are_those_on_the_page(name):
    run = recorded(f"multi30k-{name}")
    recipe, chosen = run["training"]["recipe"], run["training"]["length_penalty"]
    assert recipe["model"]["norm"] == "pre"
    assert recipe["training"]["warmup"] < 4000
    scores = {float(penalty): score for penalty, score in run["penalties"].items()}
    best = max(scores.values())
    assert scores[chosen] == best > scores[max(scores)]  # the maximum is inside
    assert 0 < round(best - scores[0.6], 2) <= 0.5


@pytest.mark.parametrize("n_heads", [1, 8, 32])
def test_one_head_or_eight_cost_the_same(n_heads):
    module, x = MultiHeadAttention(32, n_heads), torch.randn(2, 5, 32)
    assert operations(lambda: module(x, maps=[])) == 2 * 2 * 5 * (4 * 32 * 32 + 2 * 5 * 32)
    assert sum(parameter.numel() for parameter in module.parameters()) == 4 * (32 * 32 + 32)


def test_in_one_layer_every_word_reaches_every_other():
    """The output at i depends on the input at j: at once in attention, and never without it."""
    layer, words = EncoderLayer(small_config(d_model=8, n_heads=2, dropout=0.0)), FeedForward(8, 16)
    for module, expected in ((layer, torch.ones(6, 6)), (words, torch.eye(6))):
        x = torch.randn(1, 6, 8, dtype=torch.float64)
        slopes = torch.autograd.functional.jacobian(module.double(), x)[0, :, :, 0]  # [6, D, 6, D]
        assert torch.equal(slopes.abs().amax((1, 3)) > 1e-6, expected.bool())


def test_longer_sentences_take_no_more_operations_one_after_the_other():
    model, counts = small_model(), []
    for length in (2, 5, 100):
        tokens = torch.full((1, length), 4)
        with torch.no_grad():
            counts.append(calls(lambda tokens=tokens: model(tokens, tokens)).total())
    assert counts[0] > 50
    assert len({*counts}) == 1


def test_a_step_with_the_cache_is_the_work_of_one_token():
    """Its matrix products and one query's attention. The first step also reads the memory."""
    model, d, ff = small_model(), 16, 24
    source, target = torch.randint(3, 9, (2, 1, 6))
    memory, state = model.encode(source), model.start()
    given = {"source_mask": padding_mask(source), "state": state}
    for time, token in enumerate(target.split(1, dim=1)):
        given["maps"] = attention.AttentionMaps.empty()
        cost = operations(partial(model.decode, token, memory, **given))
        layer = 6 * d * d + 2 * d * ff + 2 * d * (time + 1) + 2 * d * 6
        layer += 2 * 6 * d * d if time == 0 else 0
        assert cost == 2 * 2 * layer


@pytest.mark.parametrize("side", ["source", "target"])
def test_an_embedding_is_a_learned_row_times_the_root_plus_its_position(side):
    """And it is what the first layer of its stack reads."""
    model, tokens, seen = small_model(), torch.tensor([[5, 3, 5]]), []
    embedding = getattr(model, f"{side}_embedding")
    stack = model.encoder if side == "source" else model.decoder
    table, found = embedding.tokens.weight, embedding(tokens)
    assert (found - (table[tokens] * 16**0.5 + sinusoids(0, 3, 16))).abs().max() < 1e-6
    stack.layers[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model(tokens, tokens)
    assert torch.equal(seen[0], found)
    (slopes,) = torch.autograd.grad(found.sum(), table)
    assert slopes[:, 0].tolist() == [0, 0, 0, 4, 0, 8] + [0] * (len(table) - 6)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_spares_what_goes_round_a_sublayer(norm):
    residual = Residual(small_config(d_model=8, n_heads=2, dropout=0.5, norm=norm)).double()
    residual.norm = nn.Identity()
    x, y = torch.randn(2, 50, 8).double(), torch.ones(2, 50, 8).double()
    added = (residual(x, lambda _: y) - x).round(decimals=9)
    assert {*added.unique().tolist()} == {0.0, 2.0}


def test_dropout_falls_on_the_sum_of_word_and_position():
    model, tokens = small_model(dropout=0.5), torch.randint(3, 9, (2, 30))
    for embedding in (model.source_embedding, model.target_embedding):
        dropped, whole = embedding.train()(tokens), embedding.eval()(tokens)
        kept = dropped != 0
        assert torch.equal(dropped[kept], 2 * whole[kept])
        assert 0.4 < kept.double().mean() < 0.6
