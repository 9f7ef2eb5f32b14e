import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from helpers import DEVICES, MODELS, VOCABULARY, difference, ragged, small_config, small_model
from unmasked import AttentionMaps, Transformer
from unmasked.masks import causal_mask, length_mask, padding_mask

SOURCE_LENGTHS, TARGET_LENGTHS = [7, 4, 1], [6, 2, 5]


def batch():
    return ragged(SOURCE_LENGTHS), ragged(TARGET_LENGTHS)


@pytest.mark.parametrize("preset", MODELS)
def test_every_preset_translates_a_ragged_batch(preset):
    model = small_model(preset)
    source, target = batch()
    logits, maps = model(source, target, need_weights=True)
    assert logits.shape == (3, 6, VOCABULARY)
    assert difference(logits, model(source, target)) < 1e-12
    assert [len(part) for part in maps] == [2, 2, 2]
    assert maps.encoder[0].shape == (3, 4, 7, 7)
    assert maps.decoder[0].shape == (3, 4, 6, 6)
    assert maps.cross[0].shape == (3, 4, 6, 7)
    for part, keys in ((maps.encoder, source), (maps.decoder, target), (maps.cross, source)):
        for weights in part:
            assert difference(weights.sum(-1), torch.ones(weights.shape[:-1]).double()) < 1e-12
            hidden = (~padding_mask(keys)).expand_as(weights)
            assert weights[hidden].eq(0).all()


@given(
    norm=st.sampled_from(["post", "pre"]),
    positions=st.sampled_from(["sinusoidal", "learned"]),
    feed_forward=st.sampled_from(["linear", "conv"]),
    bias=st.booleans(),
    tie=st.sampled_from([False, True, "output"]),
    scale=st.booleans(),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    extra=st.integers(1, 5),
)
def test_more_padding_changes_nothing(
    norm, positions, feed_forward, bias, tie, scale, lengths, extra
):
    model = small_model(
        norm=norm,
        positions=positions,
        feed_forward=feed_forward,
        bias=bias,
        tie_embeddings=tie,
        scale_embeddings=scale,
    )
    source, target = ragged(lengths), ragged(lengths[::-1])
    short = model(source, target)
    long = model(F.pad(source, (0, extra)), F.pad(target, (0, extra)))[:, : target.shape[1]]
    assert difference(short, long) < 1e-10
    alone = model(source[:1, : lengths[0]], target[:1, : lengths[-1]])
    assert difference(short[:1, : lengths[-1]], alone) < 1e-10


@pytest.mark.parametrize("preset", MODELS)
def test_maps_are_collected_by_each_part_that_is_asked(preset):
    """`encode` and `decode` add theirs to the same collection that a call hands out."""
    model, maps = small_model(preset), AttentionMaps.empty()
    source, target = batch()
    mask = padding_mask(source)
    memory = model.encode(source, maps=maps)
    assert [len(part) for part in maps] == [2, 0, 0]
    model.decode(target, memory, source_mask=mask, maps=maps)
    _, expected = model(source, target, need_weights=True)
    for ours, theirs in zip(maps, expected, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert difference(a, b) < 1e-12


@pytest.mark.parametrize("preset", MODELS)
def test_no_logit_depends_on_a_later_target_token(preset):
    model = small_model(preset)
    source, target = ragged([5]), ragged([6])
    before = model(source, target)
    for time in range(1, 6):
        other = target.clone()
        other[0, time:] = 3 + (other[0, time:] - 2) % (VOCABULARY - 3)
        assert difference(model(source, other)[0, :time], before[0, :time]) < 1e-12


@pytest.mark.parametrize("preset", MODELS)
@pytest.mark.parametrize("pieces", [[1] * 6, [3, 1, 2]])
def test_step_by_step_equals_all_at_once(preset, pieces):
    model = small_model(preset)
    source, target = batch()
    mask = padding_mask(source)
    memory = model.encode(source)
    expected = AttentionMaps.empty()
    whole = model.decode(target, memory, source_mask=mask, maps=expected)
    state, start = model.start(), 0
    for length in pieces:
        piece = target[:, start : start + length]
        maps = AttentionMaps.empty()
        x = model.decode(piece, memory, source_mask=mask, state=state, maps=maps)
        stop = start + length
        assert difference(x, whole[:, start:stop]) < 1e-12
        own = expected.decoder[1][:, :, start:stop, :stop]
        assert difference(maps.decoder[1], own) < 1e-12
        assert difference(maps.cross[1], expected.cross[1][:, :, start:stop]) < 1e-12
        start = stop
    assert state.length == 6


def test_masks_can_be_given_as_valid_lengths():
    model = small_model()
    source, target = batch()
    given = model(
        source,
        target,
        source_mask=length_mask(torch.tensor(SOURCE_LENGTHS), 7),
        target_mask=length_mask(torch.tensor(TARGET_LENGTHS), 6) & causal_mask(6),
    )
    assert torch.equal(given, model(source, target))
    ones = model(source, target, source_mask=length_mask(torch.tensor([1, 1, 1]), 7))
    assert difference(ones[:, :1], given[:, :1]) > 1e-3


def test_a_sentence_of_nothing_but_padding_is_no_nan():
    model = small_model()
    source, target = batch()
    expected = model(source, target)
    source[1] = 0
    logits = model(source, target)
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert difference(logits[[0, 2]], expected[[0, 2]]) < 1e-12
    assert difference(logits[1], expected[1]) > 1e-3


@pytest.mark.parametrize(("tie", "same"), [(False, (0, 0)), ("output", (0, 1)), (True, (1, 1))])
def test_tied_means_the_same_storage(tie, same):
    model = Transformer(small_config(tie_embeddings=tie))
    source, target, output = (
        part.weight.data_ptr()
        for part in (
            model.source_embedding.tokens,
            model.target_embedding.tokens,
            model.generator,
        )
    )
    assert (source == target, target == output) == tuple(map(bool, same))
    untied = Transformer(small_config(tie_embeddings=False)).count_parameters()
    assert untied - model.count_parameters() == sum(same) * VOCABULARY * 16
    model.load_state_dict(model.state_dict())
    model.double()
    assert (model.generator.weight is model.target_embedding.tokens.weight) == bool(same[1])


@pytest.mark.parametrize("tie", ["output", True])
@pytest.mark.parametrize("assign", [False, True])
def test_ties_survive_being_built_on_the_meta_device(tie, assign):
    original = small_model(tie_embeddings=tie)
    with torch.device("meta"):
        model = Transformer(original.config)
    if not assign:
        model.to_empty(device="cpu")
    model.load_state_dict(original.float().state_dict(), assign=assign)
    assert model.generator.weight is model.target_embedding.tokens.weight
    assert model.count_parameters() == original.count_parameters()
    if not assign:
        source, target = batch()
        assert torch.equal(model.eval()(source, target), original(source, target))


def test_output_tying_allows_two_vocabularies():
    config = small_config(tie_embeddings="output", source_vocab=11)
    model = Transformer(config).double()
    source, target = ragged([3], 11), ragged([4])
    assert model(source, target).shape == (1, 4, VOCABULARY)


def test_the_generator_is_a_linear_layer_and_its_bias_as_configured():
    for bias in (False, True):
        generator = small_model(output_bias=bias).generator
        assert type(generator) is nn.Linear
        assert (generator.bias is not None) == bias


def test_scaled_embeddings_are_sqrt_d_times_as_large():
    plain, scaled = small_model(scale_embeddings=False), small_model(scale_embeddings=True)
    scaled.load_state_dict(plain.state_dict())
    tokens = ragged([5])
    positions = plain.target_embedding.positions.rows(5)
    a = plain.target_embedding(tokens) - positions
    b = scaled.target_embedding(tokens) - positions
    assert difference(b, a * math.sqrt(16)) < 1e-12


def test_glorot_initialisation():
    model = Transformer(small_config(output_bias=True))
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            bound = math.sqrt(6 / sum(parameter.shape))
            assert parameter.abs().max() <= bound, name
            assert parameter.abs().max() > 0.9 * bound, name
    assert Transformer(small_config(embedding_std=0.0)).source_embedding.tokens.weight.eq(0).all()
    normal = Transformer(small_config(embedding_std=0.25, source_vocab=4000))
    deviation = normal.source_embedding.tokens.weight.detach().std()
    assert deviation == pytest.approx(0.25, rel=0.02)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_weights(device, dtype):
    exact = small_model()
    model = Transformer(exact.config).to(device, dtype).eval()
    model.load_state_dict(exact.state_dict())
    source, target = batch()
    logits = model(source.to(device), target.to(device))
    assert logits.dtype == dtype
    scale = exact(source, target).abs().max()
    assert difference(logits.cpu().double(), exact(source, target)) < 0.06 * scale


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("need_weights", [False, True])
def test_autocast(device, dtype, need_weights):
    model = small_model(dropout=0.0).float().to(device).train()
    source, target = (tokens.to(device) for tokens in batch())
    source[1] = 0
    exact = model(source, target).detach()
    with torch.autocast(device, dtype):
        result = model(source, target, need_weights=need_weights)
    logits = result[0] if need_weights else result
    assert logits.dtype == dtype
    assert difference(logits.float(), exact) < 0.06 * exact.abs().max()
    logits.float().square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_compiles_without_a_graph_break(need_weights, training):
    model = small_model().train(training)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    source, target = batch()
    torch.manual_seed(1)
    result = compiled(source, target, need_weights=need_weights)
    logits = result[0] if need_weights else result
    assert logits.shape == (3, 6, VOCABULARY)
    if not training:
        expected, maps = model(source, target, need_weights=True)
        assert difference(logits, expected) < 1e-12
        if need_weights:
            assert [len(part) for part in result[1]] == [2, 2, 2]
            assert difference(result[1].cross[1], maps.cross[1]) < 1e-12


def test_steps_compile_without_a_graph_break():
    model = small_model()
    source, target = batch()
    memory = model.encode(source).detach()

    def step(tokens, state):
        return model.decode(tokens, memory, source_mask=padding_mask(source), state=state)

    compiled = torch.compile(step, backend="eager", fullgraph=True)
    with torch.no_grad():
        plain, state = model.start(), model.start()
        for time in range(3):
            piece = target[:, time : time + 1]
            assert difference(compiled(piece, state), step(piece, plain)) < 1e-12


def test_gradients_flow_through_the_steps():
    model = small_model()
    source, target = batch()
    mask = padding_mask(source)
    whole = model.decode(target, model.encode(source), source_mask=mask)
    expected = torch.autograd.grad(whole.square().sum(), model.encoder.parameters())
    state, memory = model.start(), model.encode(source)
    steps = [
        model.decode(target[:, t : t + 1], memory, source_mask=mask, state=state) for t in range(6)
    ]
    found = torch.autograd.grad(torch.cat(steps, 1).square().sum(), model.encoder.parameters())
    for a, b in zip(expected, found, strict=True):
        assert difference(a, b) < 1e-9


def test_rows_can_leave_between_steps():
    model = small_model()
    source, target = batch()
    mask, state, rows = padding_mask(source), model.start(), torch.tensor([0, 2])
    memory = model.encode(source)
    whole = model.decode(target, memory, source_mask=mask)
    model.decode(target[:, :3], memory, source_mask=mask, state=state)
    state.select(rows)
    rest = model.decode(target[rows, 3:], memory[rows], source_mask=mask[rows], state=state)
    assert difference(rest, whole[rows, 3:]) < 1e-12


def test_works_on_whichever_device_its_inputs_are_on():
    """The meta device computes shapes only, and refuses tensors from anywhere else."""
    model = small_model().to("meta")
    source, target = (tokens.to("meta") for tokens in batch())
    logits, maps = model(source, target, need_weights=True)
    assert logits.device.type == maps.cross[0].device.type == "meta"
    assert model(source, target).shape == (3, 6, VOCABULARY)
