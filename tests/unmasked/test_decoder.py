"""The decoder: three sublayers in a layer, layers in a stack, and what it remembers of steps."""

import pytest
import torch

from helpers import difference, layer_config, small_model, vectors
from unmasked.attention import AttentionMaps
from unmasked.decoder import Decoder, DecoderLayer, DecoderState
from unmasked.masks import causal_mask, length_mask

NORMS = ["post", "pre"]


@pytest.mark.parametrize("norm", NORMS)
def test_a_decoder_layer_written_out(norm):
    layer = DecoderLayer(layer_config(norm=norm)).double()
    x, memory, mask = vectors(2, 4), vectors(2, 6), causal_mask(4)
    memory_mask = length_mask(torch.tensor([6, 3]), 6)
    steps = [
        (layer.self_residual.norm, lambda x: layer.self_attention(x, mask=mask)),
        (
            layer.cross_residual.norm,
            lambda x: layer.cross_attention(x, key=memory, mask=memory_mask),
        ),
        (layer.feed_forward_residual.norm, layer.feed_forward),
    ]
    expected = x
    for norm_layer, sublayer in steps:
        if norm == "post":
            expected = norm_layer(expected + sublayer(expected))
        else:
            expected = expected + sublayer(norm_layer(expected))
    assert difference(layer(x, memory, mask=mask, memory_mask=memory_mask), expected) < 1e-14


@pytest.mark.parametrize("final_norm", [False, True])
def test_a_decoder_applies_its_layers_in_order(final_norm):
    decoder = Decoder(layer_config(), 3, final_norm).double()
    x, memory = vectors(2, 4), vectors(2, 5)
    expected = x
    for layer in decoder.layers:
        expected = layer(expected, memory)
    assert (decoder.norm is not None) == final_norm
    expected = decoder.norm(expected) if final_norm else expected
    assert torch.equal(decoder(x, memory), expected)


@pytest.mark.parametrize("norm", NORMS)
def test_the_future_changes_nothing_before_it(norm):
    decoder = Decoder(layer_config(norm=norm), 2).double()
    x, memory = vectors(1, 6), vectors(1, 3)
    before = decoder(x, memory, mask=causal_mask(6))
    for time in range(1, 6):
        other = x.clone()
        other[0, time:] += 1
        after = decoder(other, memory, mask=causal_mask(6))
        assert difference(after[0, :time], before[0, :time]) < 1e-13
        assert difference(after[0, time:], before[0, time:]) > 1e-3


def test_collecting_a_decoders_maps_changes_no_output():
    decoder, maps = Decoder(layer_config(), 2).double(), AttentionMaps.empty()
    x, memory = vectors(2, 4), vectors(2, 5)
    found = decoder(x, memory, mask=causal_mask(4), maps=maps)
    assert difference(found, decoder(x, memory, mask=causal_mask(4))) < 1e-14
    assert maps.encoder == []
    assert [weights.shape for weights in maps.decoder] == [(2, 4, 4, 4)] * 2
    assert [weights.shape for weights in maps.cross] == [(2, 4, 4, 5)] * 2
    assert all(own.triu(1).eq(0).all() for own in maps.decoder)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("pieces", [[1] * 5, [2, 3]])
def test_pieces_with_a_state_equal_the_whole(norm, pieces):
    """Each piece brings the mask of its own rows: over all that came before, and itself."""
    decoder = Decoder(layer_config(norm=norm), 2).double()
    x, memory = vectors(2, 5), vectors(2, 3)
    whole, state, start = decoder(x, memory, mask=causal_mask(5)), DecoderState(2), 0
    for length in pieces:
        piece, mask = x[:, start : start + length], causal_mask(length, past=start)
        found = decoder(piece, memory, mask=mask, state=state)
        assert difference(found, whole[:, start : start + length]) < 1e-13
        start += length
    assert [layer.past.length for layer in state.layers] == [5, 5]
    assert [layer.memory.length for layer in state.layers] == [3, 3]


def test_a_state_counts_what_is_real_and_lets_rows_go():
    state = DecoderState(1)
    first, second = torch.tensor([[1, 1], [1, 0]]).bool(), torch.tensor([[1], [0]]).bool()
    assert torch.equal(state.extend(first[:, None, None]), first[:, None, None])
    both = torch.cat([first, second], dim=1)[:, None, None]
    assert torch.equal(state.extend(second[:, None, None]), both)
    assert state.length == 3
    state.select(torch.tensor([1]))
    assert torch.equal(state.real, both[1:])
    assert state.length == 3


def test_every_parameter_is_reached_by_the_gradient():
    model = small_model(positions="learned", max_len=4, norm="pre", output_bias=True)
    tokens = torch.tensor([[3, 4, 5, 6]])
    model(tokens, tokens).square().sum().backward()
    unreached = [
        name
        for name, parameter in model.named_parameters()
        # Softmax does not feel one number added to all scores, so a key's bias has no effect.
        if not name.endswith("key.bias") and not parameter.grad.abs().max() > 1e-12
    ]
    assert unreached == []


# --- What belongs to other sentences is refused, and nothing has changed ------------------------


def three_read(decoder):
    state = DecoderState(2)
    with torch.no_grad():
        decoder(vectors(3, 2), vectors(3, 4), state=state)
    return state


@pytest.mark.parametrize(
    ("batch", "read", "message"),
    [(1, 4, "a batch of 1, got 3"), (4, 4, "a batch of 4, got 3"), (3, 5, "a memory of 5")],
)
def test_a_state_of_other_sentences_is_refused(batch, read, message):
    decoder = Decoder(layer_config(), 2).double().eval()
    state = three_read(decoder)
    with torch.no_grad(), pytest.raises(ValueError, match=message):
        decoder(vectors(batch, 1), vectors(batch, read), state=state)
    assert [layer.past.length for layer in state.layers] == [2, 2]


def test_a_state_of_another_depth_is_refused_compiled_too():
    decoder = Decoder(layer_config(), 2).double().eval()
    with pytest.raises(ValueError, match="state: expected 2 layers, got 1"):
        decoder(vectors(1, 1), vectors(1, 2), state=DecoderState(1))
    compiled = torch.compile(decoder, backend="eager")
    with pytest.raises(ValueError, match=r"layers|zip"):
        compiled(vectors(1, 1), vectors(1, 2), state=DecoderState(1))


@pytest.mark.parametrize("part", ["model", "encode", "decode", "decoder"])
def test_maps_of_another_kind_are_refused_and_not_left_empty(part):
    model = small_model()
    source = torch.tensor([[3, 4]])
    memory, mask = model.encode(source), torch.ones(1, 1, 1, 2, dtype=torch.bool)
    calls = {
        "model": lambda: model(source, source, maps=[]),
        "encode": lambda: model.encode(source, maps=[]),
        "decode": lambda: model.decode(source, memory, source_mask=mask, maps=[]),
        "decoder": lambda: model.decoder(memory, memory, maps=[]),
    }
    with pytest.raises(ValueError, match="maps: expected an AttentionMaps, got list"):
        calls[part]()
