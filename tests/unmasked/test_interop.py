"""Our model is PyTorch's: outputs and gradients, whole and in parts, there and back."""

import itertools
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from helpers import MODELS, SMALL, VOCABULARY, difference, ragged, small_config, small_model
from unmasked import MultiHeadAttention, Transformer
from unmasked.attention import attention
from unmasked.decoder import DecoderLayer
from unmasked.encoder import EncoderLayer, Residual
from unmasked.feed_forward import FeedForward
from unmasked.interop import from_torch, to_torch, torch_masks
from unmasked.interop.torch import matching_tensors
from unmasked.kernels import Dropout
from unmasked.masks import causal_mask, length_mask, padding_mask

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
NN_OPTIONS = [
    {"norm_first": pre, "bias": bias, "activation": activation}
    for pre, bias, activation in itertools.product((False, True), (True, False), ("relu", "gelu"))
]


def randomise(module):
    for parameter in module.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, std=0.3)
    return module


def is_bias_of_a_norm(name):
    """Ours always have one; those of a torch layer with bias=False do not."""
    return re.fullmatch(r"(.*\.)?norm\d?\.bias", name)


def assert_zero_where_the_other_has_none(ours, theirs):
    for name, our, their in matching_tensors(ours, theirs):
        if our is None or their is None:
            left = their if our is None else our
            assert left is None or left.eq(0).all(), name


def assert_gradients_agree(ours, theirs, tolerance):
    """The gradients of all parameters, through the same correspondence as the weights."""
    gradients = [{id(p): p.grad for p in module.parameters()} for module in (ours, theirs)]
    assert all(grad is not None for part in gradients for grad in part.values())
    for module in (ours, theirs):  # put the gradients where the weights were
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(parameter.grad)
    compared = 0
    for name, our, their in matching_tensors(ours, theirs):
        if our is not None and (their is not None or not is_bias_of_a_norm(name)):
            assert their is not None, name
            scale = max(1.0, float(our.detach().abs().max()))
            assert difference(our.view_as(their), their) < tolerance * scale, name
            compared += 1
    assert compared > 0


def assert_equal_with_gradients(ours, theirs, dtype, target_embedding_inputs):
    source, target = target_embedding_inputs
    real = target != 0
    x, y = ours.source_embedding(source).detach(), ours.target_embedding(target).detach()
    our = ours.decode(target, ours.encode(source), source_mask=padding_mask(source))
    their = theirs(x, y, **torch_masks(source, target))
    assert difference(our[real], their[real]) < TOLERANCE[dtype]
    weights = torch.randn_like(our[real])
    (our[real] * weights).sum().backward()
    (their[real] * weights).sum().backward()
    stacks = nn.ModuleDict({"encoder": ours.encoder, "decoder": ours.decoder})
    for part in ("encoder", "decoder"):
        assert_gradients_agree(stacks[part], getattr(theirs, part), 10 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("preset", MODELS)
@pytest.mark.parametrize("training", [False, True])
def test_every_preset_to_torch(preset, dtype, training):
    model = small_model(preset, dropout=0.0, inner_dropout=0.0, n_decoder_layers=3)
    model = model.to(dtype).train(training)
    theirs = to_torch(model)
    assert theirs.training == training
    batch = ragged([7, 4, 1]), ragged([6, 2, 5])
    assert_equal_with_gradients(model, theirs, dtype, batch)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("final_norm", [True, False])
@pytest.mark.parametrize("options", NN_OPTIONS)
def test_everything_nn_transformer_can_express_from_torch(options, final_norm, dtype):
    theirs = nn.Transformer(
        16, 4, 2, 3, 24, 0.0, batch_first=True, layer_norm_eps=1e-4, dtype=dtype, **options,
        custom_encoder=nn.TransformerEncoder(
            nn.TransformerEncoderLayer(
                16, 4, 24, 0.0, batch_first=True, layer_norm_eps=1e-4, dtype=dtype, **options
            ),
            2,
            nn.LayerNorm(16, 1e-4, bias=options["bias"], dtype=dtype) if final_norm else None,
            enable_nested_tensor=False,
        ),
    )  # fmt: skip
    if not final_norm:
        theirs.decoder.norm = None
    randomise(theirs)
    ours = from_torch(theirs, source_vocab=VOCABULARY, target_vocab=VOCABULARY)
    assert ours.config.n_decoder_layers == 3
    assert next(ours.parameters()).dtype == dtype
    assert_zero_where_the_other_has_none(ours, theirs)
    batch = ragged([7, 4, 1]), ragged([6, 2, 5])
    assert_equal_with_gradients(ours, theirs, dtype, batch)


def test_the_paper_notes_model_is_nn_transformer():
    with torch.device("meta"):
        theirs = nn.Transformer(512, 8, 6, 6, 2048, 0.1, batch_first=True)
    ours = from_torch(theirs, source_vocab=10, target_vocab=10).config
    preset = small_config("paper_notes", d_model=512, n_heads=8, d_ff=2048)
    for name in ("d_model", "n_heads", "d_ff", "norm", "norm_eps", "bias", "dropout"):
        assert getattr(ours, name) == getattr(preset, name)
    assert ours.has_final_norm == preset.has_final_norm
    assert (ours.n_layers, ours.decoder_layers) == (6, 6)


@pytest.mark.parametrize("preset", MODELS)
def test_there_and_back_is_the_same_model(preset):
    model = small_model(preset)
    back = from_torch(to_torch(model), model.config)
    for ours, other in ((model.encoder, back.encoder), (model.decoder, back.decoder)):
        for (name, a), b in zip(
            ours.state_dict().items(), other.state_dict().values(), strict=True
        ):
            assert torch.equal(a, b), name


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("direction", ["to", "from"])
def test_multi_head_attention_alone(dtype, bias, direction):
    if direction == "to":
        ours = randomise(MultiHeadAttention(12, 3, bias=bias).to(dtype))
        theirs = to_torch(ours)
    else:
        theirs = nn.MultiheadAttention(12, 3, bias=bias, batch_first=True, dtype=dtype)
        ours = from_torch(randomise(theirs))
    query = torch.randn(2, 4, 12, dtype=dtype)
    key, value = (torch.randn(2, 5, 12, dtype=dtype) for _ in range(2))
    mask, maps = length_mask(torch.tensor([5, 2]), 5), []
    our = ours(query, key=key, value=value, mask=mask, maps=maps)
    their, their_weights = theirs(
        query, key, value, key_padding_mask=~mask[:, 0, 0], average_attn_weights=False
    )
    assert difference(our, their) < TOLERANCE[dtype]
    assert difference(maps[0], their_weights) < TOLERANCE[dtype]
    assert difference(ours(query, key=key, value=value, mask=mask), their) < TOLERANCE[dtype]
    our.square().sum().backward()
    their.square().sum().backward()
    assert_gradients_agree(ours, theirs, 10 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("options", NN_OPTIONS)
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_single_layers_both_ways(dtype, options, kind):
    cls = nn.TransformerEncoderLayer if kind == "encoder" else nn.TransformerDecoderLayer
    theirs = randomise(cls(16, 4, 24, 0.0, batch_first=True, dtype=dtype, **options))
    ours = from_torch(theirs)
    assert isinstance(ours, EncoderLayer if kind == "encoder" else DecoderLayer)
    before, again = theirs.state_dict(), to_torch(ours).state_dict()
    assert before.keys() == again.keys() or (not options["bias"] and before.keys() < again.keys())
    for name, tensor in again.items():
        assert torch.equal(tensor, before.get(name, torch.zeros_like(tensor))), name
    x, memory = torch.randn(2, 5, 16, dtype=dtype), torch.randn(2, 6, 16, dtype=dtype)
    if kind == "encoder":
        our = ours(x, mask=length_mask(torch.tensor([5, 3]), 5))
        their = theirs(x, src_key_padding_mask=torch.arange(5) >= torch.tensor([[5], [3]]))
    else:
        our = ours(x, memory, mask=causal_mask(5), memory_mask=length_mask(torch.tensor([6, 2]), 6))
        hidden = torch.arange(6) >= torch.tensor([[6], [2]])
        their = theirs(x, memory, tgt_mask=~causal_mask(5), memory_key_padding_mask=hidden)
    assert difference(our, their) < TOLERANCE[dtype]
    our.square().sum().backward()
    their.square().sum().backward()
    assert_gradients_agree(ours, theirs, 10 * TOLERANCE[dtype])


def test_dropout_goes_along():
    model = Transformer(small_config(dropout=0.2, inner_dropout=0.05))
    theirs = to_torch(model)
    layer = theirs.decoder.layers[0]
    assert (layer.dropout1.p, layer.dropout.p, layer.self_attn.dropout) == (0.2, 0.05, 0.05)
    back = from_torch(theirs, source_vocab=5, target_vocab=5).config
    assert (back.dropout, back.inner_dropout) == (0.2, 0.05)


def test_what_torch_itself_says_of_our_attention():
    """F.multi_head_attention is built on the same function that ours must equal."""
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_mask(5))
    assert difference(attention(q, k, v, causal_mask(5), maps=[]), expected) < 1e-6


def test_keys_or_values_of_another_width_have_no_counterpart():
    for width in ({"kdim": 5}, {"vdim": 7}):
        theirs = nn.MultiheadAttention(12, 3, batch_first=True, **width)
        with pytest.raises(ValueError, match=r"^module: expected keys and values of width 12"):
            from_torch(theirs)


def test_conversion_copies():
    model = small_model()
    theirs = to_torch(model)
    before = theirs.encoder.layers[0].linear1.weight.clone()
    with torch.no_grad():
        model.encoder.layers[0].feed_forward.expand.weight.zero_()
    assert torch.equal(theirs.encoder.layers[0].linear1.weight, before)


def norms_of(layer):
    return [layer.norm1, layer.norm2]


def bad_module(change):
    theirs = nn.Transformer(16, 4, 2, 2, 24, 0.0, batch_first=True)
    change(theirs)
    return theirs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: setattr(m.encoder, "norm", None), "module: expected a final norm on both"),
        (
            lambda m: setattr(m.encoder.layers[0], "activation", torch.tanh),
            "module: expected the activation relu or gelu",
        ),
        (
            lambda m: setattr(m.encoder.layers[0].self_attn, "dropout", 0.5),
            "module: expected one dropout inside",
        ),
        (
            lambda m: setattr(m.encoder.layers[0].self_attn, "add_zero_attn", True),
            "module: expected attention without add_bias_kv",
        ),
        (
            lambda m: [
                setattr(m.encoder.layers[1], f"norm{i}", nn.LayerNorm(16, 0.1)) for i in (1, 2)
            ],
            "module: expected layers that are all alike",
        ),
        (
            lambda m: setattr(m.encoder.layers[1].norm2, "eps", 0.1),
            "module: expected LayerNorms with weights and one epsilon",
        ),
        (
            lambda m: setattr(m.decoder, "norm", nn.LayerNorm(16, 0.1)),
            "module: expected LayerNorms with weights and one epsilon",
        ),
        (
            lambda m: setattr(m.decoder, "norm", nn.LayerNorm(16, elementwise_affine=False)),
            "module: expected LayerNorms with weights and one epsilon",
        ),
        (
            lambda m: setattr(m.decoder.layers[0].dropout2, "p", 0.5),
            "module: expected one dropout on all sublayers",
        ),
        (
            lambda m: setattr(m, "encoder", nn.Identity()),
            "module: expected stacks of PyTorch, TransformerEncoder, got Identity",
        ),
    ],
)
def test_what_has_no_counterpart_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        from_torch(bad_module(change), source_vocab=5, target_vocab=5)


# --- What was changed after it was made -----------------------------------------------------------


class Louder(MultiHeadAttention):
    def forward(self, query, **options):
        return 2 * super().forward(query, **options)


def louder(model):
    attention = model.decoder.layers[1].cross_attention
    attention.__class__ = Louder


def parts(model, kind):
    return [module for module in model.modules() if isinstance(module, kind)]


def every(kind, name, value):
    """All parts of a kind, alike again but not as configured."""

    def change(model):
        for part in parts(model, kind):
            setattr(part, name, value)

    return change


def drop_a_layer(model):
    model.encoder.layers = model.encoder.layers[:1]


CHANGED = {
    "GELU in one layer": lambda m: setattr(m.encoder.layers[1].feed_forward, "activation", F.gelu),
    "other heads in one layer": lambda m: setattr(m.encoder.layers[0].self_attention, "n_heads", 2),
    "a subclassed attention": louder,
    "a hook": lambda m: m.decoder.layers[0].register_forward_hook(lambda *_: None),
    "one bias less": lambda m: setattr(m.encoder.layers[0].self_attention.query, "bias", None),
    "no bias of any query": lambda m: [
        setattr(part.query, "bias", None) for part in parts(m, MultiHeadAttention)
    ],
    "other heads everywhere": every(MultiHeadAttention, "n_heads", 2),
    "GELU everywhere": every(FeedForward, "activation", F.gelu),
    "pre-norm everywhere": every(Residual, "pre", True),
    "another epsilon everywhere": every(nn.LayerNorm, "eps", 0.5),
    "another dropout everywhere": every(Dropout, "p", 0.5),
    "another dropout of attention": every(MultiHeadAttention, "dropout", 0.5),
    "a final norm that was not there": lambda m: setattr(
        m.decoder, "norm", nn.LayerNorm(16).double()
    ),
    "a layer less": drop_a_layer,
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_model_is_refused(name):
    model = small_model()
    to_torch(model)
    CHANGED[name](model)
    with pytest.raises(ValueError, match=r"^module: expected .* got .*; convert the parts"):
        to_torch(model)


def test_a_final_norm_that_is_gone_is_missed():
    model = small_model(norm="pre")
    model.encoder.norm = None
    with pytest.raises(ValueError, match=r"^module: expected .*, got another encoder\.norm; "):
        to_torch(model)


@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
def test_a_changed_part_is_refused(kind):
    model = small_model()
    layer = next(part for part in parts(model, kind))
    to_torch(layer)
    to_torch(layer.self_attention)
    layer.feed_forward.activation = F.gelu
    with pytest.raises(ValueError, match=r"^module: expected parts as configured"):
        to_torch(layer)
    to_torch(layer.self_attention)
    layer.self_attention.key.bias = None
    with pytest.raises(ValueError, match=r"^module: expected parts as configured"):
        to_torch(layer.self_attention)


def test_parts_that_are_as_they_were_can_be_converted_from_a_changed_model():
    model = small_model()
    model.encoder.layers[1].feed_forward.activation = F.gelu
    x = torch.randn(2, 3, 16).double()
    assert difference(to_torch(model.encoder.layers[0])(x), model.encoder.layers[0](x)) < 1e-10


def test_layers_may_be_one_layer_over_and_over():
    model = small_model()
    model.encoder.layers[1] = model.encoder.layers[0]
    source, target = ragged([5, 3]), ragged([4, 4])
    memory = model.encode(source)
    expected = model.decode(target, memory, source_mask=padding_mask(source))
    x, y = model.source_embedding(source), model.target_embedding(target)
    assert difference(to_torch(model)(x, y, **torch_masks(source, target)), expected) < 1e-10


@pytest.mark.parametrize("option", ["n_heads", "norm", "norm_eps", "activation", "final_norm"])
def test_a_configuration_that_would_change_the_outputs_is_refused(option):
    other = {"n_heads": 2, "norm": "pre", "norm_eps": 0.1, "activation": "gelu", "final_norm": True}
    config = small_config(**{**SMALL, "final_norm": False, option: other[option]})
    if option == "norm":
        config = small_config(norm="pre", final_norm=False)
    with pytest.raises(ValueError, match=rf"config\.(has_)?{option}: expected .* as in the module"):
        from_torch(to_torch(small_model()), config)


def test_a_bias_cannot_get_lost():
    theirs = to_torch(small_model())
    with pytest.raises(
        ValueError, match=r"query\.bias: expected no bias, got one that is not zero"
    ):
        from_torch(theirs, small_config(attention_bias=False))


def test_other_arguments_that_are_refused():
    theirs = to_torch(small_model())
    with pytest.raises(ValueError, match="source_vocab: expected the size of a vocabulary"):
        from_torch(theirs, target_vocab=5)
    with pytest.raises(ValueError, match="options: expected none beside a config"):
        from_torch(theirs, small_config(), source_vocab=5)
    with pytest.raises(ValueError, match=r"linear1\.weight: expected shape"):
        from_torch(theirs, small_config(d_ff=32))
    with pytest.raises(ValueError, match="config: expected a TransformerConfig, got str"):
        from_torch(theirs, "base")
    with pytest.raises(ValueError, match=r"options: expected none, got \['dropout'\]; a part says"):
        from_torch(theirs.encoder.layers[0], dropout=0.5)
    for convert in (to_torch, from_torch):
        for nothing in (nn.Linear(2, 2), nn.ReLU(), None):
            with pytest.raises(ValueError, match=r"module: expected .* got"):
                convert(nothing)


@pytest.mark.parametrize(
    ("option", "value"),
    [("n_heads", 2), ("norm", "pre"), ("activation", "gelu"), ("norm_eps", 0.5), ("n_layers", 1)],
)
def test_options_cannot_contradict_the_module(option, value):
    with pytest.raises(ValueError, match=rf"config\.{option}: expected .* as in the module"):
        from_torch(to_torch(small_model()), source_vocab=5, target_vocab=5, **{option: value})


def test_epsilon_and_mode_go_along():
    model = small_model(norm_eps=0.1, final_norm=True)
    theirs = to_torch(model)
    assert theirs.decoder.norm.eps == theirs.decoder.layers[0].norm3.eps == 0.1
    assert not from_torch(theirs, model.config).training
    assert from_torch(theirs.train(), model.config).training


def test_shapes_can_be_converted_without_memory():
    with torch.device("meta"):
        model = Transformer(small_config("source_reading"))
    assert next(from_torch(to_torch(model), model.config).parameters()).is_meta


def test_an_activation_may_be_a_module():
    theirs = nn.TransformerEncoderLayer(16, 4, 24, 0.0, activation=nn.GELU(), batch_first=True)
    assert from_torch(theirs).config.activation == "gelu"
    other = nn.TransformerEncoderLayer(16, 4, 24, 0.0, activation=nn.GELU("tanh"), batch_first=True)
    with pytest.raises(ValueError, match="module: expected the activation relu or gelu, got GELU"):
        from_torch(other)
