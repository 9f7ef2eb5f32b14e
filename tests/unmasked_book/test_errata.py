"""The documents' mistakes that concern the model, as told in `book/bugs.md`: ours has none.

Each test holds a check, our version, and the faulty one in a few lines of our own.
"""

import math

import pytest
import torch
from torch import nn

from helpers import VOCABULARY, difference, ragged, small_config, small_model
from helpers.faults import told_apart
from unmasked import AttentionMaps, LayerConfig, MultiHeadAttention, Transformer
from unmasked.attention import attention, attention_weights, masked_softmax
from unmasked.decoder import Decoder, DecoderLayer, DecoderState
from unmasked.encoder import Residual
from unmasked.feed_forward import FeedForward
from unmasked.loss import teacher_forcing
from unmasked.masks import causal_mask, from_ones, padding_mask
from unmasked.positions import frequencies, shift_matrix, sinusoids

TINY = LayerConfig(d_model=8, n_heads=2, dropout=0.0)


def heads(width=16, length=5):
    return torch.randn(3, 2, 3, length, width, dtype=torch.float64)


def test_erratum_01_the_weights_are_returned_under_the_name_they_have():
    module, x = MultiHeadAttention(8, 2), torch.randn(2, 3, 8)

    def check(attend):
        assert difference(attend()[1].sum(-1), torch.ones(2, 2, 3)) < 1e-6

    def ours():
        maps = []
        return module(x, maps=maps), maps[0]

    def faulty():
        output, attn = ours()  # noqa: RUF059
        return output, att  # noqa: F821

    told_apart(check, ours, faulty, error=NameError)


def test_erratum_02_the_scale_follows_the_width_of_the_heads():
    q, k, v = heads(width=16)

    def check(attend):
        assert difference(attend(q, k, v), (q @ k.mT / 4).softmax(-1) @ v) < 1e-12

    told_apart(check, attention, lambda q, k, v: (q @ k.mT / math.sqrt(64)).softmax(-1) @ v)


def test_erratum_03_the_causal_mask_is_boolean_and_made_where_it_is_used():
    def check(make):
        mask = make(4, "meta")
        assert (mask.dtype, mask.device.type) == (torch.bool, "meta")

    def faulty(n, device="cpu"):  # noqa: ARG001
        return torch.triu(torch.ones(n, n, dtype=torch.float64), diagonal=1)

    told_apart(check, lambda n, device: causal_mask(n, device=device), faulty)
    with pytest.raises(ValueError, match=r"mask.*boolean"):
        masked_softmax(torch.zeros(4, 4), faulty(4))


def hidden_by_a_billion(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(-1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_erratum_04_a_row_that_sees_nothing_attends_to_nothing_in_any_precision(dtype):
    def check(softmax):
        weights = softmax(torch.randn(3, 4, dtype=dtype), torch.zeros(3, 4, dtype=torch.bool))
        assert weights.eq(0).all()  # and not 1/4 each

    error = RuntimeError if dtype == torch.float16 else AssertionError
    told_apart(check, masked_softmax, hidden_by_a_billion, error=error)


def test_erratum_05_the_sizes_reach_every_layer():
    def check(build):
        model = build(small_config(d_model=24, n_heads=3, n_layers=3, dropout=0.25, max_len=7))
        assert model(ragged([4]), ragged([3])).shape == (1, 3, VOCABULARY)
        assert len(model.encoder.layers) == 3
        assert model.encoder.layers[2].attention_residual.dropout.p == 0.25
        assert len(model.target_embedding.positions.table) == 7

    def faulty(config):  # layers that are built without arguments have their defaults
        model = Transformer(config)
        model.encoder.layers[0] = type(model.encoder.layers[0])(LayerConfig())
        return model

    told_apart(check, Transformer, faulty, error=ValueError)


def test_erratum_06_dropout_is_applied_and_embeddings_are_scaled():
    def check(module):
        x = torch.randn(2, 3, 8)
        assert not torch.equal(module(x), module(x))

    class Faulty(FeedForward):
        def forward(self, x):
            return self.contract(self.activation(self.expand(x)))  # makes a dropout, never calls it

    told_apart(check, FeedForward(8, 16, dropout=0.5), Faulty(8, 16, dropout=0.5))
    check(MultiHeadAttention(8, 2, dropout=0.5))

    def check_scale(model):
        tokens = torch.tensor([[5]])
        embedded = model.target_embedding(tokens) - model.target_embedding.positions.rows(1)
        expected = model.target_embedding.tokens(tokens) * math.sqrt(model.config.d_model)
        assert difference(embedded, expected) < 1e-12

    told_apart(check_scale, small_model(), small_model("pytorch_walkthrough"))


def test_erratum_07_the_decoder_needs_no_name_from_outside_and_can_be_decoded_with():
    model = small_model().to("meta")

    def check(decode):
        assert decode(torch.zeros(1, 3, dtype=torch.long, device="meta")).device.type == "meta"

    def faulty(tokens):
        return causal_mask(tokens.shape[1]).to(device)  # noqa: F821

    check(lambda tokens: padding_mask(tokens) & causal_mask(3, device=tokens.device))
    decoded = lambda tokens: model(tokens, tokens, need_weights=True)[1].decoder[0]  # noqa: E731
    told_apart(check, decoded, faulty, error=NameError)


def test_erratum_08_odd_widths_and_as_many_frequencies_as_pairs():
    def check(table):
        last = torch.sin(torch.arange(10.0).double() / 10_000 ** (6 / 7))
        assert table(10, 7).shape == (10, 7)
        assert difference(table(10, 7)[:, 6], last) < 1e-12

    def faulty(length, d_model):
        table = torch.zeros(length, d_model, dtype=torch.float64)
        angle = torch.arange(length).double()[:, None] * frequencies(d_model)
        table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
        return table

    told_apart(check, lambda *sizes: sinusoids(0, *sizes), faulty, error=RuntimeError)
    assert len(frequencies(512)) == 256  # d_model / 2, whatever the longest sentence


def test_erratum_08_cross_attention_maps_are_target_by_source():
    model, source, target = small_model(), ragged([7]), ragged([4])

    def check(shape):
        memory, maps = model.encode(source), AttentionMaps.empty()
        mask = torch.ones(shape, dtype=torch.bool)
        model.decode(target, memory, source_mask=mask, maps=maps)
        assert maps.cross[0].shape[-2:] == (4, 7)

    told_apart(check, (4, 7), (4, 4), error=ValueError)  # target by target, as it says


def test_erratum_08_hidden_scores_are_very_low_and_not_very_high():
    def check(softmax):
        assert softmax(torch.randn(5, 5), causal_mask(5))[0].tolist() == [1, 0, 0, 0, 0]

    told_apart(check, masked_softmax, lambda x, mask: x.masked_fill(~mask, 1e9).softmax(-1))


def test_erratum_09_a_convolution_of_width_one_is_the_linear_layer():
    """What is to be measured is the time; the numbers agree, if the weights are the same."""
    linear, conv, other = (
        FeedForward(6, 10, kind=kind).double() for kind in ("linear", "conv", "conv")
    )
    weights = linear.state_dict().items()
    conv.load_state_dict({k: w[..., None] if w.dim() == 2 else w for k, w in weights})
    x = torch.randn(2, 3, 6).double()

    def check(module):
        assert difference(module(x), linear(x)) < 1e-14

    told_apart(check, conv, other)


@pytest.mark.parametrize("width", [32, 512])
def test_erratum_10_neither_exp_of_log_nor_power_is_exact_in_float32(width):
    """The claim is that exp(-log) is the more accurate: in float32 it is the less accurate one."""
    index = torch.arange(0, width, 2)
    exact = 10000.0 ** (-index.double() / width)
    power = 10000.0 ** (-index.float() / width)
    exp_log = torch.exp(index.float() * (-torch.log(torch.tensor(10000.0)) / width))

    def error(rates):
        return ((rates.double() - exact) / exact).abs().max()

    def check(rates):
        assert error(rates) < 1e-10

    told_apart(check, frequencies(width), power, exp_log)
    assert error(power) < error(exp_log)


def test_erratum_11_text_and_code_agree_on_the_polarity():
    q, k, _ = heads()

    def check(mask):
        weights = attention_weights(q, k, mask)
        assert weights.triu(1).eq(0).all()  # nobody sees the future
        assert weights.tril().sum(-1).allclose(torch.ones((), dtype=torch.float64))

    upper_ones = torch.ones(5, 5).triu(1)  # "upper triangle 1": hidden, says the text …
    told_apart(check, ~from_ones(upper_ones), from_ones(upper_ones))  # … and the code hides 0


def test_erratum_12_the_divisor_is_the_root_of_the_width():
    q, k, _ = heads(width=16)

    def check(attend):
        assert difference(attend(q, k), (q @ k.mT / 4).softmax(-1)) < 1e-12

    told_apart(
        check, attention_weights, lambda q, k: attention_weights(q, k, scale=1 / math.sqrt(2))
    )


def test_erratum_13_the_norm_is_pytorchs():
    x = torch.randn(3, 16, dtype=torch.float64)

    def check(norm):
        centred = x - x.mean(-1, keepdim=True)
        variance = x.var(-1, unbiased=False, keepdim=True)
        assert difference(norm(x), centred / (variance + 1e-5).sqrt()) < 1e-12

    def faulty(x):  # Bessel's correction, and epsilon beside the root
        return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)

    told_apart(check, Residual(LayerConfig(d_model=16, n_heads=2)).double().norm, faulty)


def test_erratum_14_the_papers_norm_comes_after_the_sum():
    x, y = torch.randn(2, 2, 3, 16)

    def check(norm):
        residual = Residual(LayerConfig(d_model=16, n_heads=2, dropout=0.0, norm=norm))
        out = residual(x, lambda _: y)
        assert out.mean(-1).abs().max() < 1e-5
        assert (out.std(-1, unbiased=False) - 1).abs().max() < 1e-3

    told_apart(check, small_config("base").norm, small_config("source_reading").norm)
    assert small_config("source_reading").has_final_norm


def test_erratum_15_masking_leaves_the_callers_scores_alone():
    def check(softmax):
        scores = torch.randn(2, 3, 3)
        before = scores.clone()
        softmax(scores, causal_mask(3))
        assert torch.equal(scores, before)

    def faulty(scores, mask):
        view = scores.reshape(-1, 3)
        view[~mask.expand(2, 3, 3).reshape(-1, 3)] = -1e6
        return view.reshape(scores.shape).softmax(-1)

    told_apart(check, masked_softmax, faulty)


def test_erratum_16_the_shift_is_a_rotation():
    here, there = (torch.tensor([math.sin(0.3 * p), math.cos(0.3 * p)]) for p in (5, 7))
    assert there[1] == pytest.approx(-0.5048, abs=1e-4)

    def check(matrix):
        assert difference(matrix @ here, there) < 1e-6

    sine, cosine = math.sin(0.6), math.cos(0.6)
    faulty = torch.tensor([[cosine, sine], [cosine, -sine]])
    assert (faulty @ here)[1] == pytest.approx(0.7833, abs=1e-4)
    told_apart(check, shift_matrix(2, 0.6, torch.float32), faulty)


def test_erratum_17_every_layer_is_registered():
    def check(model):
        layers = list(model.layers)
        assert {p for layer in layers for p in layer.parameters()} <= set(model.parameters())
        model.to("meta")
        assert all(p.device.type == "meta" for layer in layers for p in layer.parameters())

    class Faulty(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(2, 2) for _ in range(3)]

    told_apart(check, Decoder(TINY, 2), Faulty())
    positions = small_model().to("meta").source_embedding.positions
    assert positions.table.device.type == "meta"  # a buffer moves along


def test_erratum_18_a_decoder_is_a_module():
    def check(decoder):
        module = decoder(TINY, 1)
        assert isinstance(module, nn.Module)
        assert module(torch.randn(1, 2, 8), torch.randn(1, 3, 8)).shape == (1, 2, 8)

    def faulty(config, n_layers):  # noqa: ARG001 (a def where a class was meant)
        def forward(x, memory):  # noqa: ARG001
            return x

    told_apart(check, Decoder, faulty)


def test_erratum_18_the_first_word_has_keys_too():
    decoder, memory = Decoder(TINY, 1).eval(), torch.randn(1, 2, 8)

    def check(step):
        assert step(torch.randn(1, 1, 8)).shape == (1, 1, 8)

    def faulty(x, past=None):
        if past is not None:
            keys = torch.cat([past, x], dim=1)
        return keys

    ours = lambda x: decoder(x, memory, state=DecoderState(1))  # noqa: E731
    told_apart(check, ours, faulty, error=UnboundLocalError)


def test_erratum_18_the_future_is_hidden_outside_of_training_too():
    model, source, target = small_model(dropout=0.0), ragged([4]), ragged([6])
    changed = target.clone()
    changed[0, -1] = 3 + changed[0, -1] % (VOCABULARY - 3)

    def check(decode):
        for training in (True, False):
            model.train(training)
            assert difference(decode(target)[:, :-1], decode(changed)[:, :-1]) < 1e-12

    def faulty(tokens):  # the causal mask is made while training only
        mask = None if model.training else padding_mask(tokens)
        return model(source, tokens, target_mask=mask)

    assert not torch.equal(target, changed)
    told_apart(check, lambda tokens: model(source, tokens), faulty)


def test_erratum_19_each_step_stands_at_its_own_position(monkeypatch):
    model, source, target = small_model(), ragged([4]), ragged([5])
    memory, mask = model.encode(source), padding_mask(source)
    embed = model.target_embedding.forward

    def check(start):
        state = model.start()
        with monkeypatch.context() as patch:
            at_start = lambda tokens, at=0: embed(tokens, start(at))  # noqa: E731
            patch.setattr(model.target_embedding, "forward", at_start)
            steps = [
                model.decode(token, memory, source_mask=mask, state=state)
                for token in target.split(1, dim=1)
            ]
        whole = model.decode(target, memory, source_mask=mask)
        assert difference(torch.cat(steps, 1), whole) < 1e-12

    told_apart(check, lambda at: at, lambda at: 0)  # every new token at position 0


def test_erratum_20_values_have_their_own_projection_and_the_output_is_the_vocabulary():
    module, x = MultiHeadAttention(8, 2).double(), torch.randn(1, 4, 8).double()

    def check(value):
        q, k, v = (part(x).chunk(2, dim=-1) for part in (module.query, module.key, value))
        outputs = [(q[i] @ k[i].mT / 2).softmax(-1) @ v[i] for i in range(2)]
        assert difference(module.output(torch.cat(outputs, dim=-1)), module(x)) < 1e-12

    told_apart(check, module.value, module.query)
    assert small_model("valid_lengths").generator.out_features == VOCABULARY


def test_erratum_21_in_training_the_decoder_reads_the_given_words():
    """One pass over the given target, no word of it the model's own."""
    model, source = small_model(), ragged([4])
    inputs, labels = teacher_forcing(ragged([6]))
    assert torch.equal(labels[:, :-1], inputs[:, 1:])

    def check(read):
        alone = [model(source, inputs[:, :time])[:, -1:] for time in range(1, 6)]
        assert difference(model(source, read), torch.cat(alone, dim=1)) < 1e-12

    written = inputs.clone()
    for time in range(1, 5):  # the autoregressive version: its own words are read
        written[:, time] = model(source, written[:, :time])[:, -1].argmax(-1)
    told_apart(check, inputs, written)


def test_erratum_22_hidden_means_weight_zero_and_not_only_a_low_score():
    """Minus a billion hides nothing from a row in which all scores are lower still."""
    scores = torch.tensor([[-2e9, 0.0], [-2e9, -3e9]])
    mask = torch.tensor([[True, False], [True, True]])

    def check(softmax):
        assert softmax(scores, mask).tolist() == [[1.0, 0.0], [1.0, 0.0]]

    told_apart(check, masked_softmax, hidden_by_a_billion)


def test_erratum_23_cross_attention_adds_to_what_the_word_was():
    """With values of nothing, attention says nothing: the word must come through unchanged."""
    layer = DecoderLayer(TINY).double()
    memory = torch.randn(1, 3, 8, dtype=torch.float64)
    for parameter in (*layer.cross_attention.value.parameters(), layer.cross_attention.output.bias):
        nn.init.zeros_(parameter)
    norm = layer.cross_residual.norm

    def check(across):
        y = norm(torch.randn(1, 2, 8, dtype=torch.float64))
        assert difference(across(y), norm(y)) < 1e-12

    def ours(y):
        return layer.cross_residual(y, layer.cross_attention, key=memory)

    told_apart(check, ours, lambda y: norm(layer.cross_attention(y, key=memory)))
