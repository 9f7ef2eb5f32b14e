"""The documents' mistakes that concern the model, each as a test that fails on the faulty version.

What each number stands for is told in `book/documents.md`. Every test holds a check, our version,
which must pass it, and the faulty version in a few lines of our own, which must not.
"""

import math

import pytest
import torch
from torch import nn

from helpers import VOCABULARY, difference, ragged, small_config, small_model
from unmasked import AttentionMaps, LayerConfig, MultiHeadAttention, Transformer
from unmasked.attention import attention, attention_weights, masked_softmax
from unmasked.decoder import Decoder, DecoderLayer, DecoderState
from unmasked.encoder import Residual
from unmasked.feed_forward import FeedForward
from unmasked.loss import teacher_forcing
from unmasked.masks import causal_mask, from_ones, padding_mask
from unmasked.positions import frequencies, shift_matrix, sinusoids


def caught(check, faulty, error=AssertionError):
    """The check must refuse the faulty version."""
    with pytest.raises(error):
        check(faulty)


def heads(width=16, length=5):
    return [torch.randn(2, 3, length, width, dtype=torch.float64) for _ in range(3)]


def test_erratum_01_the_weights_are_returned_under_the_name_they_have():
    def check(module):
        _, weights = module(torch.randn(2, 3, 8))
        assert difference(weights.sum(-1), torch.ones(2, 2, 3)) < 1e-6

    def faulty(x):
        output, attn = ours(x)  # noqa: RUF059
        return output, att  # noqa: F821

    module = MultiHeadAttention(8, 2)

    def ours(x):
        maps = []
        return module(x, maps=maps), maps[0]

    check(ours)
    caught(check, faulty, NameError)


def test_erratum_02_the_scale_follows_the_width_of_the_heads():
    q, k, v = heads(width=16)

    def check(attend):
        expected = (q @ k.transpose(-1, -2) / math.sqrt(16)).softmax(-1) @ v
        assert difference(attend(q, k, v), expected) < 1e-12

    def faulty(q, k, v, d_k=64):
        return (q @ k.transpose(-1, -2) / math.sqrt(d_k)).softmax(-1) @ v

    check(attention)
    caught(check, faulty)
    with pytest.raises(TabError):  # its __init__ mixes tabs and blanks
        compile("def init(d_k):\n\tk = 1\n        return k\n", "erratum", "exec")


def test_erratum_03_the_causal_mask_is_boolean_and_made_where_it_is_used():
    def check(make):
        mask = make(4, "meta")
        assert mask.dtype == torch.bool
        assert mask.device.type == "meta"
        torch.zeros(4, 4, device="meta").masked_fill_(~mask, 0.0)

    def faulty(n, device):  # noqa: ARG001
        return torch.triu(torch.ones(n, n, dtype=torch.float64), diagonal=1)

    check(lambda n, device: causal_mask(n, device=device))
    caught(check, faulty)
    with pytest.raises(ValueError, match="mask: expected a boolean tensor"):
        masked_softmax(torch.zeros(4, 4), faulty(4, "cpu"))


def hidden_by_a_billion(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(-1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_erratum_04_a_row_that_sees_nothing_attends_to_nothing_in_any_precision(dtype):
    def check(softmax):
        weights = softmax(torch.randn(3, 4, dtype=dtype), torch.zeros(3, 4, dtype=torch.bool))
        assert weights.eq(0).all()  # and not 1/4 each

    check(masked_softmax)
    half = dtype == torch.float16
    caught(check, hidden_by_a_billion, RuntimeError if half else AssertionError)


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

    check(Transformer)
    caught(check, faulty, ValueError)


def test_erratum_06_dropout_is_applied_and_embeddings_are_scaled():
    def check(module):
        x = torch.randn(2, 3, 8)
        assert not torch.equal(module(x), module(x))

    class Faulty(FeedForward):
        def forward(self, x):
            return self.contract(self.activation(self.expand(x)))  # makes a dropout, never calls it

    check(FeedForward(8, 16, dropout=0.5).train())
    check(MultiHeadAttention(8, 2, dropout=0.5).train())
    caught(check, Faulty(8, 16, dropout=0.5).train())

    def check_scale(model):
        tokens = torch.tensor([[5]])
        embedded = model.target_embedding(tokens) - model.target_embedding.positions.rows(1)
        expected = model.target_embedding.tokens(tokens) * math.sqrt(model.config.d_model)
        assert difference(embedded, expected) < 1e-12

    check_scale(small_model())
    caught(check_scale, small_model("pytorch_walkthrough"))


def test_erratum_07_the_decoder_needs_no_name_from_outside_and_can_be_decoded_with():
    model = small_model().to("meta")

    def check(masks):
        mask = masks(torch.zeros(1, 3, dtype=torch.long, device="meta"))
        assert mask.device.type == "meta"

    def faulty(tokens):
        return causal_mask(tokens.shape[1]).to(device)  # noqa: F821

    check(lambda tokens: padding_mask(tokens) & causal_mask(3, device=tokens.device))
    check(lambda tokens: model(tokens, tokens, need_weights=True)[1].decoder[0])
    caught(check, faulty, NameError)


def test_erratum_08_odd_widths_and_as_many_frequencies_as_pairs():
    def check(table):
        assert table(10, 7).shape == (10, 7)
        assert (
            difference(
                table(10, 7)[:, 6], torch.sin(torch.arange(10.0).double() / 10_000 ** (6 / 7))
            )
            < 1e-12
        )

    def faulty(length, d_model):
        table = torch.zeros(length, d_model, dtype=torch.float64)
        angle = torch.arange(length).double()[:, None] * frequencies(d_model)
        table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
        return table

    check(lambda length, d_model: sinusoids(0, length, d_model))
    caught(check, faulty, RuntimeError)
    assert len(frequencies(512)) == 256  # d_model / 2, whatever the longest sentence


def test_erratum_08_cross_attention_maps_are_target_by_source():
    model, source, target = small_model(), ragged([7]), ragged([4])

    def check(mask):
        memory, maps = model.encode(source), AttentionMaps.empty()
        model.decode(target, memory, source_mask=mask, maps=maps)
        assert maps.cross[0].shape[-2:] == (4, 7)

    check(torch.ones(4, 7, dtype=torch.bool))
    caught(check, torch.ones(4, 4, dtype=torch.bool), ValueError)  # target by target, as it says


def test_erratum_08_hidden_scores_are_very_low_and_not_very_high():
    def check(softmax):
        weights = softmax(torch.randn(5, 5), causal_mask(5))
        assert weights[0].tolist() == [1, 0, 0, 0, 0]

    check(masked_softmax)
    caught(check, lambda scores, mask: scores.masked_fill(~mask, 1e9).softmax(-1))


def test_erratum_09_a_convolution_of_width_one_is_the_linear_layer():
    """What is to be measured is the time; the numbers agree, if the weights are the same."""
    linear, conv = FeedForward(6, 10).double(), FeedForward(6, 10, kind="conv").double()
    x = torch.randn(2, 3, 6).double()

    def check(module):
        assert difference(module(x), linear(x)) < 1e-14

    caught(check, conv)
    weights = linear.state_dict().items()
    conv.load_state_dict({k: w[..., None] if w.dim() == 2 else w for k, w in weights})
    check(conv)


@pytest.mark.parametrize("width", [32, 96, 300, 512, 768, 1024])
def test_erratum_10_neither_exp_of_log_nor_power_is_exact_in_float32(width):
    """The claim is that exp(-log) is the more accurate: in float32 it is the less accurate one."""
    index = torch.arange(0, width, 2)
    exact = 10000.0 ** (-index.double() / width)
    power = 10000.0 ** (-index.float() / width)
    exp_log = torch.exp(index.float() * (-torch.log(torch.tensor(10000.0)) / width))

    def check(rates):
        assert ((rates.double() - exact) / exact).abs().max() < 1e-10

    check(frequencies(width))
    caught(check, power)
    caught(check, exp_log)
    errors = [float(((rates - exact) / exact).abs().max()) for rates in (power, exp_log)]
    assert errors[0] < errors[1]


def test_erratum_11_text_and_code_agree_on_the_polarity():
    def check(mask):
        q, k, _ = heads()
        weights = attention_weights(q, k, mask)
        assert weights.triu(1).eq(0).all()  # nobody sees the future
        assert weights.tril().sum(-1).allclose(torch.ones((), dtype=torch.float64))

    upper_ones = torch.ones(5, 5).triu(1)  # "upper triangle 1": hidden, says the text …
    check(~from_ones(upper_ones))
    caught(check, from_ones(upper_ones))  # … while the code hides where the mask is 0


def test_erratum_12_the_divisor_is_the_root_of_the_width():
    q, k, _ = heads(width=16)

    def check(attend):
        weights = attend(q, k)
        scores = (weights.log() - weights.log().mean(-1, keepdim=True)) * 4
        products = q @ k.transpose(-1, -2)
        assert difference(scores, products - products.mean(-1, keepdim=True)) < 1e-9

    check(attention_weights)
    caught(check, lambda q, k: attention_weights(q, k, scale=1 / math.sqrt(2)))


def test_erratum_13_the_norm_is_pytorchs():
    x = torch.randn(3, 16, dtype=torch.float64)

    def check(norm):
        variance = x.var(-1, unbiased=False, keepdim=True)
        assert (
            difference(norm(x), (x - x.mean(-1, keepdim=True)) / (variance + 1e-5).sqrt()) < 1e-12
        )

    def faulty(x):  # Bessel's correction, and epsilon beside the root
        return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)

    check(Residual(LayerConfig(d_model=16, n_heads=2)).double().norm)
    caught(check, faulty)


def test_erratum_14_the_papers_norm_comes_after_the_sum():
    x, y = torch.randn(2, 3, 16), torch.randn(2, 3, 16)

    def check(residual):
        out = residual(x, lambda _: y)
        assert out.mean(-1).abs().max() < 1e-5
        assert (out.std(-1, unbiased=False) - 1).abs().max() < 1e-3

    check(Residual(LayerConfig(d_model=16, n_heads=2, dropout=0.0)))
    caught(check, Residual(LayerConfig(d_model=16, n_heads=2, dropout=0.0, norm="pre")))
    assert small_config("base").norm == "post"
    assert small_config("source_reading").norm == "pre"
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

    check(masked_softmax)
    caught(check, faulty)


def test_erratum_16_the_shift_is_a_rotation():
    def check(matrix):
        here, there = (torch.tensor([math.sin(0.3 * p), math.cos(0.3 * p)]) for p in (5, 7))
        moved = matrix(torch.tensor(2 * 0.3)) @ here
        assert there[1] == pytest.approx(-0.5048, abs=1e-4)
        assert difference(moved, there) < 1e-6

    def faulty(angle):
        sine, cosine = angle.sin(), angle.cos()
        return torch.stack([cosine, sine, cosine, -sine]).view(2, 2)

    def ours(angle):  # a width of 2 turns by one radian a step
        return shift_matrix(2, float(angle), torch.float32)

    check(ours)
    caught(check, faulty)
    here = torch.tensor([math.sin(1.5), math.cos(1.5)])
    assert (faulty(torch.tensor(0.6)) @ here)[1] == pytest.approx(0.7833, abs=1e-4)


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

    check(Decoder(LayerConfig(d_model=8, n_heads=2), 2))
    caught(check, Faulty())
    positions = small_model().to("meta").source_embedding.positions
    assert positions.table.device.type == "meta"  # a buffer moves along


def test_erratum_18_a_decoder_is_a_module():
    def check(decoder):
        module = decoder(LayerConfig(d_model=8, n_heads=2), 1)
        assert isinstance(module, nn.Module)
        assert module(torch.randn(1, 2, 8), torch.randn(1, 3, 8)).shape == (1, 2, 8)

    def faulty(config, n_layers):  # noqa: ARG001 (a def where a class was meant)
        def forward(x, memory):  # noqa: ARG001
            return x

    check(Decoder)
    caught(check, faulty)
    with pytest.raises(SyntaxError):  # as it stands there
        compile("def Decoder(nn.Module): ...", "erratum", "exec")


def test_erratum_18_the_first_word_has_keys_too():
    decoder = Decoder(LayerConfig(d_model=8, n_heads=2), 1).eval()
    memory, word = torch.randn(1, 2, 8), torch.randn(1, 1, 8)

    def check(step):
        assert step(word).shape == (1, 1, 8)

    def faulty(x, past=None):
        if past is not None:
            keys = torch.cat([past, x], dim=1)
        return keys

    check(lambda x: decoder(x, memory, state=DecoderState(1)))
    caught(check, faulty, UnboundLocalError)


def test_erratum_18_the_future_is_hidden_outside_of_training_too():
    source, target = ragged([4]), ragged([6])
    changed = target.clone()
    changed[0, -1] = 3 + changed[0, -1] % (VOCABULARY - 3)

    def check(decode):
        for training in (True, False):
            model.train(training)
            assert difference(decode(target)[:, :-1], decode(changed)[:, :-1]) < 1e-12

    def faulty(tokens):  # the causal mask is made while training only
        mask = None if model.training else padding_mask(tokens)
        return model(source, tokens, target_mask=mask)

    model = small_model(dropout=0.0)
    assert not torch.equal(target, changed)
    check(lambda tokens: model(source, tokens))
    caught(check, faulty)


def test_erratum_19_each_step_stands_at_its_own_position():
    model = small_model()
    source, target = ragged([4]), ragged([5])
    mask = padding_mask(source)
    memory = model.encode(source)

    def check(start):
        state, steps = model.start(), []
        embedding, forward = model.target_embedding, model.target_embedding.forward
        embedding.forward = lambda tokens, at=0: forward(tokens, start(at))
        try:
            for time in range(5):
                step = target[:, time : time + 1]
                steps.append(model.decode(step, memory, source_mask=mask, state=state))
        finally:
            del embedding.forward
        assert (
            difference(torch.cat(steps, 1), model.decode(target, memory, source_mask=mask)) < 1e-12
        )

    check(lambda at: at)
    caught(check, lambda at: 0 * at)  # every new token at position 0


def test_erratum_20_values_have_their_own_projection_and_the_output_is_the_vocabulary():
    module, x = MultiHeadAttention(8, 2).double(), torch.randn(1, 4, 8).double()

    def loop(value_projection):
        outputs = []
        for rows in (slice(0, 4), slice(4, 8)):
            q, k, v = (
                x @ part.weight[rows].T + part.bias[rows]
                for part in (module.query, module.key, value_projection)
            )
            outputs.append((q @ k.transpose(1, 2) / 2).softmax(-1) @ v)
        return module.output(torch.cat(outputs, dim=-1))

    def check(output):
        assert difference(output, module(x)) < 1e-12

    check(loop(module.value))
    caught(check, loop(module.query))
    assert small_model("valid_lengths").generator.out_features == VOCABULARY


def test_erratum_21_in_training_the_decoder_reads_the_given_words():
    """One pass over the given target, no word of it the model's own."""
    model = small_model()
    source, target = ragged([4]), ragged([6])
    inputs, labels = teacher_forcing(target)

    def check(logits):
        expected = torch.cat(
            [model(source, inputs[:, : time + 1])[:, -1:] for time in range(5)], dim=1
        )
        assert difference(logits, expected) < 1e-12

    written = inputs.clone()
    for time in range(1, 5):  # the autoregressive version: its own words are read
        written[:, time] = model(source, written[:, :time])[:, -1].argmax(-1)
    assert torch.equal(labels[:, :-1], inputs[:, 1:])
    check(model(source, inputs))
    caught(check, model(source, written))


def test_erratum_22_hidden_means_weight_zero_and_not_only_a_low_score():
    """Minus a billion hides nothing from a row in which all scores are lower still."""

    def check(softmax):
        scores = torch.tensor([[-2e9, 0.0], [-2e9, -3e9]])
        mask = torch.tensor([[True, False], [True, True]])
        assert softmax(scores, mask).tolist() == [[1.0, 0.0], [1.0, 0.0]]

    check(masked_softmax)
    caught(check, hidden_by_a_billion)


def test_erratum_23_cross_attention_adds_to_what_the_word_was():
    """With values of nothing, attention says nothing: the word must come through unchanged."""
    layer = DecoderLayer(LayerConfig(d_model=8, n_heads=2, dropout=0.0)).double()
    memory = torch.randn(1, 3, 8, dtype=torch.float64)
    with torch.no_grad():
        layer.cross_attention.value.weight.zero_()
        layer.cross_attention.value.bias.zero_()
        layer.cross_attention.output.bias.zero_()

    def check(across):
        y = layer.cross_residual.norm(torch.randn(1, 2, 8, dtype=torch.float64))
        assert difference(across(y), layer.cross_residual.norm(y)) < 1e-12

    def ours(y):
        return layer.cross_residual(y, layer.cross_attention, key=memory)

    def faulty(y):
        return layer.cross_residual.norm(layer.cross_attention(y, key=memory))

    check(ours)
    caught(check, faulty)
