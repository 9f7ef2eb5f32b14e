"""Padding, steps, masks, ties, precisions and the compiler change no number of the whole model."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from helpers import DEVICES, MODELS, VOCABULARY, difference, ragged, small_config, small_model
from unmasked import AttentionMaps, Transformer
from unmasked.config import POSITIONS
from unmasked.masks import causal_mask, length_mask, padding_mask


def batch():
    return ragged([7, 4, 1]), ragged([6, 2, 5])


@pytest.mark.parametrize("preset", MODELS)
def test_maps_say_what_each_layer_attended_to_and_change_no_logit(preset):
    model, (source, target) = small_model(preset), batch()
    logits, maps = model(source, target, need_weights=True)
    assert logits.shape == (3, 6, VOCABULARY)
    assert difference(logits, model(source, target)) < 1e-12
    sides = (source, source), (target, target), (target, source)
    for part, (queries, keys) in zip(maps, sides, strict=True):
        assert len(part) == model.config.n_layers
        assert not torch.equal(part[0], part[1])
        for weights in part:
            assert weights.shape == (3, 4, queries.shape[1], keys.shape[1])
            assert difference(weights.sum(-1), torch.ones(weights.shape[:-1]).double()) < 1e-12
            assert weights[(~padding_mask(keys)).expand_as(weights)].eq(0).all()
    assert all(weights.triu(1).eq(0).all() for weights in maps.decoder)


@given(
    st.sampled_from([*MODELS]), st.sampled_from(POSITIONS),
    st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(1, 5),
)  # fmt: skip
def test_more_padding_changes_nothing(preset, positions, lengths, extra):
    model = small_model(preset, positions=positions)
    source, target = ragged(lengths), ragged(lengths[::-1])
    short = model(source, target)
    long = model(F.pad(source, (0, extra)), F.pad(target, (0, extra)))[:, : target.shape[1]]
    assert difference(short, long) < 1e-10
    alone = model(source[:1, : lengths[0]], target[:1, : lengths[-1]])
    assert difference(short[:1, : lengths[-1]], alone) < 1e-10


@pytest.mark.parametrize("preset", MODELS)
@pytest.mark.parametrize("pieces", [[1] * 6, [3, 1, 2]])
def test_step_by_step_equals_all_at_once(preset, pieces):
    model, (source, target) = small_model(preset), batch()
    memory, state, stop = model.encode(source), model.start(), 0
    given, expected = {"source_mask": padding_mask(source)}, AttentionMaps.empty()
    whole = model.decode(target, memory, **given, maps=expected)
    for piece in target.split(pieces, dim=1):
        start, stop, maps = stop, stop + piece.shape[1], AttentionMaps.empty()
        x = model.decode(piece, memory, **given, state=state, maps=maps)
        assert difference(x, whole[:, start:stop]) < 1e-12
        own = expected.decoder[1][:, :, start:stop, :stop]
        assert difference(maps.decoder[1], own) < 1e-12
        assert difference(maps.cross[1], expected.cross[1][:, :, start:stop]) < 1e-12


def test_masks_can_be_given_as_valid_lengths():
    model, (source, target) = small_model(), batch()
    read = length_mask(torch.tensor([7, 4, 1]), 7)
    written = length_mask(torch.tensor([6, 2, 5]), 6) & causal_mask(6)
    found = model(source, target, source_mask=read, target_mask=written)
    assert torch.equal(found, model(source, target))


def test_every_parameter_is_reached_by_the_gradient():
    model = small_model(positions="learned", max_len=4, norm="pre", output_bias=True)
    tokens = torch.tensor([[3, 4, 5, 6]])
    model(tokens, tokens).square().sum().backward()
    unreached = [name for name, p in model.named_parameters() if not p.grad.abs().max() > 1e-12]
    # A key's bias adds one number to all scores of a query, which changes no softmax.
    assert [name for name in unreached if not name.endswith("key.bias")] == []


@pytest.mark.parametrize(("tie", "same"), [(False, (0, 0)), ("output", (0, 1)), (True, (1, 1))])
def test_tied_means_the_same_storage_however_the_model_was_made(tie, same):
    original, untied = small_model(tie_embeddings=tie), small_model().count_parameters()
    assert untied - original.count_parameters() == sum(same) * VOCABULARY * 16
    with torch.device("meta"):
        assigned, emptied = Transformer(original.config), Transformer(original.config)
    emptied.to_empty(device="cpu")
    state = original.state_dict()
    for model, options in ((original, {}), (assigned, {"assign": True}), (emptied.double(), {})):
        model.load_state_dict(state, **options)
        source, target = model.source_embedding.tokens.weight, model.target_embedding.tokens.weight
        assert (source is target, target is model.generator.weight) == same
        assert model.count_parameters() == original.count_parameters()
    tokens = batch()
    assert torch.equal(emptied.eval()(*tokens), original(*tokens))


def test_scaled_embeddings_are_sqrt_d_times_as_large():
    plain, scaled = small_model(scale_embeddings=False), small_model(scale_embeddings=True)
    scaled.load_state_dict(plain.state_dict())
    tokens, positions = ragged([5]), plain.target_embedding.positions.rows(5)
    a, b = (model.target_embedding(tokens) - positions for model in (plain, scaled))
    assert difference(b, a * math.sqrt(16)) < 1e-12


def test_glorot_initialisation():
    model = Transformer(small_config(output_bias=True))
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            bound = math.sqrt(6 / sum(parameter.shape))
            assert 0.9 * bound < parameter.abs().max() <= bound, name
    assert Transformer(small_config(embedding_std=0.0)).source_embedding.tokens.weight.eq(0).all()
    normal = Transformer(small_config(embedding_std=0.25, source_vocab=4000))
    deviation = normal.source_embedding.tokens.weight.detach().std()
    assert deviation == pytest.approx(0.25, rel=0.02)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("maps", [None, AttentionMaps.empty()])
def test_autocast(device, dtype, maps):
    model = small_model(dropout=0.0).float().to(device).train()
    source, target = (tokens.to(device) for tokens in batch())
    source[1] = 0
    exact = model(source, target).detach()
    with torch.autocast(device, dtype):
        logits = model(source, target, maps=maps)
    assert logits.dtype == dtype
    assert difference(logits.float(), exact) < 0.06 * exact.abs().max()
    logits.float().square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("training", [False, True])
def test_compiles_without_a_graph_break_(training):
    model, (source, target) = small_model(n_layers=1).train(training), batch()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    logits, maps = compiled(source, target, need_weights=True)
    assert logits.shape == (3, 6, VOCABULARY)
    if not training:
        expected, expected_maps = model(source, target, need_weights=True)
        assert difference(logits, expected) < 1e-12
        assert difference(maps.cross[0], expected_maps.cross[0]) < 1e-12
