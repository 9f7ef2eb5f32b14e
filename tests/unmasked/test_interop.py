"""A converted model, or a part of one, has the outputs and gradients of the original."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from helpers import MODELS, difference, put, ragged, same_tensors, small_config, small_model
from helpers.refusals import refusals
from unmasked.interop import from_torch, to_torch, torch_masks
from unmasked.interop.torch import matching_tensors
from unmasked.masks import length_mask, padding_mask

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
SIZES = {"source_vocab": 23, "target_vocab": 23}
NN_OPTIONS = [
    {"norm_first": pre, "bias": bias, "activation": activation}
    for pre in (False, True) for bias in (True, False) for activation in ("relu", "gelu", F.silu)
]  # fmt: skip


def randomise(module):
    for parameter in module.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, std=0.3)
    return module


def assert_equal_with_gradients(ours, theirs, our, their):
    """Compares outputs and gradients; each gradient takes the place of its parameter."""
    tolerance = TOLERANCE[our.dtype]
    assert difference(our, their) < tolerance
    weights = torch.randn_like(our)
    (our * weights).sum().backward()
    (their * weights).sum().backward()
    for parameter in (*ours.parameters(), *theirs.parameters()):
        parameter.data = parameter.data if parameter.grad is None else parameter.grad
    for name, found, expected in matching_tensors(ours, theirs):
        if found is not None and expected is not None:  # one of them may lack a bias
            scale = max(1.0, float(expected.detach().abs().max()))
            assert difference(found.view_as(expected), expected) < 10 * tolerance * scale, name


def assert_equal_models(ours, theirs):
    source, target = ragged([7, 4, 1]), ragged([6, 2, 5])
    real = target != 0
    x, y = ours.source_embedding(source).detach(), ours.target_embedding(target).detach()
    our = ours.decode(target, ours.encode(source), source_mask=padding_mask(source))
    their = theirs(x, y, **torch_masks(source, target))
    assert_equal_with_gradients(ours, theirs, our[real], their[real])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("preset", MODELS)
@pytest.mark.parametrize("training", [False, True])
def test_every_preset_to_torch(preset, dtype, training):
    model = small_model(preset, dropout=0.0, inner_dropout=0.0, n_decoder_layers=3)
    model = model.to(dtype).train(training)
    theirs = to_torch(model)
    back = from_torch(theirs, model.config)
    assert theirs.training == back.training == training
    for part in ("encoder", "decoder"):
        assert same_tensors(getattr(model, part).state_dict(), getattr(back, part).state_dict())
    assert_equal_models(model, theirs)


def test_settings_go_along_and_weights_are_copied():
    model = small_model(norm_eps=0.1, final_norm=True, dropout=0.2, inner_dropout=0.05)
    theirs = to_torch(model)
    model.encoder.layers[0].feed_forward.expand.weight.data.zero_()
    assert theirs.encoder.layers[0].linear1.weight.any()
    assert from_torch(theirs, **SIZES).config == replace(model.config, n_decoder_layers=2)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("final_norm", [True, False])
@pytest.mark.parametrize("options", NN_OPTIONS)
def test_everything_nn_transformer_can_express_from_torch(options, final_norm, dtype):
    common = {"batch_first": True, "layer_norm_eps": 1e-4, "dtype": dtype, **options}
    norm = nn.LayerNorm(16, 1e-4, bias=options["bias"], dtype=dtype) if final_norm else None
    layer = nn.TransformerEncoderLayer(16, 4, 24, 0.0, **common)
    encoder = nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)
    theirs = nn.Transformer(16, 4, 2, 3, 24, 0.0, **common, custom_encoder=encoder)
    if not final_norm:
        theirs.decoder.norm = None
    randomise(theirs)
    ours = from_torch(theirs, **SIZES)
    assert ours.config.n_decoder_layers == 3
    assert next(ours.parameters()).dtype == dtype
    for name, our, their in matching_tensors(ours, theirs):
        left = [x for x in (our, their) if x is not None]
        assert len(left) != 1 or left[0].eq(0).all(), name
    assert_equal_models(ours, theirs)


def test_the_paper_notes_model_is_nn_transformer():
    with torch.device("meta"):
        theirs = nn.Transformer(512, 8, 6, 6, 2048, 0.1, batch_first=True)
    ours = from_torch(theirs, **SIZES).config
    preset = small_config("paper_notes", d_model=512, n_heads=8, d_ff=2048)
    names = ("d_model", "n_heads", "d_ff", "norm", "norm_eps", "bias", "dropout", "has_final_norm")
    assert [getattr(ours, name) for name in names] == [getattr(preset, name) for name in names]


@pytest.mark.parametrize("bias", [True, False])
def test_multi_head_attention_alone(bias):
    theirs = randomise(nn.MultiheadAttention(12, 3, bias=bias, batch_first=True).double())
    ours, maps = from_torch(theirs), []
    query, key, value = (torch.randn(2, n, 12, dtype=torch.float64) for n in (4, 5, 5))
    mask = length_mask(torch.tensor([5, 2]), 5)
    our = ours(query, key=key, value=value, mask=mask, maps=maps)
    assert difference(ours(query, key=key, value=value, mask=mask), our) < 1e-10
    for each in (to_torch(ours), theirs):
        their, weights = each(query, key, value, ~mask[:, 0, 0], average_attn_weights=False)
        assert difference(maps[0], weights) < 1e-10
        assert difference(our, their) < 1e-10
    assert_equal_with_gradients(ours, theirs, our, their)


@pytest.mark.parametrize("options", NN_OPTIONS)
@pytest.mark.parametrize(("kind", "lengths"), [("Encoder", [5]), ("Decoder", [5, 6])])
def test_single_layers_both_ways(options, kind, lengths):
    make = getattr(nn, f"Transformer{kind}Layer")
    theirs = randomise(make(16, 4, 24, 0.0, batch_first=True, dtype=torch.float64, **options))
    ours = from_torch(theirs)
    given = [torch.randn(2, length, 16, dtype=torch.float64) for length in lengths]
    for each in (ours, to_torch(ours)):
        assert difference(each(*given), theirs(*given)) < 1e-10


FIRST, SECOND = "encoder.layers.0", "encoder.layers.1"
CHANGES = [
    (put("encoder", norm=None), ".* got another decoder.norm"),
    (put(SECOND, norm1=nn.LayerNorm(16, 0.1)), f".* layers alike.* got another {SECOND}.norm1"),
    (put(FIRST, activation=nn.GELU("tanh")), "the activation relu, gelu or swish"),
    (put(SECOND, activation=F.gelu), f".* got another {SECOND}; change it, or convert"),
    (put("decoder.layers.0.dropout2", p=0.5), ".* one dropout.* got another decoder.*dropout2"),
    (put(f"{FIRST}.self_attn", dropout=0.5), ".* got another .*self_attn"),
    (put(f"{FIRST}.self_attn", add_zero_attn=True), ".* got another .*self_attn"),
    (lambda whole: whole.register_forward_hook(lambda *_: None), ".* got another output: a hook"),
]


def converted(*given, of="", change=lambda _: None, **options):
    """Returns a call that converts a module of torch, or one of its parts."""

    def call():
        theirs = to_torch(small_model(final_norm=True))
        change(theirs)
        from_torch(theirs.get_submodule(of), *given, **options)

    return call


test_what_has_no_counterpart_is_refused = refusals(
    *((converted(change=change, **SIZES), f"module: expected {said}") for change, said in CHANGES),
    (converted(**SIZES, n_heads=2), "config.n_heads: .* as in the module, got 2"),
    (converted(**SIZES, norm="pre"), "config.norm: .* as in the module, got 'pre'"),
    (converted(**SIZES, norm_eps=0.1), "config.norm_eps: .* as in the module, got 0.1"),
    (converted(**SIZES, n_decoder_layers=3), "config.decoder_layers: .* as in the module, got 3"),
    (converted(small_config()), "config.has_final_norm: .* as in the module, got False"),
    (converted(small_config(), source_vocab=5), "options: expected none beside"),
    (converted(small_config(d_ff=32, final_norm=True)), r".*expand\.weight: expected shape"),
    (converted(of=FIRST, dropout=0.5), r"options: .* got \['dropout'\]"),
    (converted(small_config(attention_bias=False, final_norm=True)), r".*query\.bias: .* not zero"),
    (lambda: from_torch(None), "module: expected .* got"),
)


def test_a_changed_part_is_refused_and_the_others_are_converted():
    model = small_model()
    first, second = model.decoder.layers
    first.self_attention.key.bias = None
    second.cross_residual.dropout.p = 0.5
    for changed in (model, first, first.self_attention, second):
        with pytest.raises(ValueError, match=r"^module: expected .* got another .*; convert the p"):
            to_torch(changed)
    for unchanged in (model.encoder.layers[0], first.cross_attention, second.self_attention):
        to_torch(unchanged)
