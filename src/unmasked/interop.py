"""Weights to and from `torch.nn`, for the whole model and for its parts.

Both directions walk the same list of pairs (our tensor, theirs). A bias that one side does not
have is a zero on the other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import MultiHeadAttention
from .config import LayerConfig, TransformerConfig
from .correspondence import fitting, pairs
from .decoder import DecoderLayer
from .encoder import EncoderLayer
from .masks import causal_mask
from .special import PADDING
from .transformer import Transformer
from .validation import invalid

Layer = EncoderLayer | DecoderLayer
TorchLayer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer


def to_torch(module: nn.Module) -> Any:
    """The `torch.nn` module that computes the same: a new one, with a copy of the weights.

    Transformer → nn.Transformer (without embeddings and generator, which that class lacks),
    EncoderLayer, DecoderLayer and MultiHeadAttention → their namesakes. All are batch_first.
    """
    like = next(module.parameters())
    place: dict[str, Any] = {"device": like.device, "dtype": like.dtype}
    theirs: nn.Module
    if isinstance(module, Transformer):
        theirs = _torch_transformer(module.config, place)
    elif isinstance(module, EncoderLayer | DecoderLayer):
        theirs = _torch_layer(module, place)
    elif isinstance(module, MultiHeadAttention):
        theirs = nn.MultiheadAttention(
            module.d_model,
            module.n_heads,
            dropout=module.dropout,
            bias=module.query.bias is not None,
            kdim=module.key.in_features,
            vdim=module.value.in_features,
            batch_first=True,
            **place,
        )
    else:
        expected = "a Transformer, EncoderLayer, DecoderLayer or MultiHeadAttention"
        raise invalid("module", expected, type(module).__name__, "convert its parts one by one")
    with torch.no_grad():
        for name, our, their in pairs(module, theirs):
            if their is not None:
                their.copy_(torch.zeros_like(their) if our is None else fitting(name, our, their))
    return theirs.train(module.training)


def from_torch(module: nn.Module, config: TransformerConfig | None = None, **options: Any) -> Any:
    """Our counterpart of a `torch.nn` module: a new one, with a copy of the weights.

    For nn.Transformer say what it does not know, `source_vocab=…, target_vocab=…` and other
    options of TransformerConfig, or give a whole `config`. Embeddings and generator are new.
    """
    ours: nn.Module
    if isinstance(module, nn.Transformer):
        ours = Transformer(_transformer_config(module, config, options))
    elif isinstance(module, nn.TransformerEncoderLayer):
        ours = EncoderLayer(LayerConfig(**_layer_options(module)))
    elif isinstance(module, nn.TransformerDecoderLayer):
        ours = DecoderLayer(LayerConfig(**_layer_options(module)))
    elif isinstance(module, nn.MultiheadAttention):
        _refuse_extras(module)
        ours = MultiHeadAttention(
            module.embed_dim,
            module.num_heads,
            dropout=module.dropout,
            bias=module.in_proj_bias is not None,
            key_width=module.kdim,
            value_width=module.vdim,
        )
    else:
        expected = "nn.Transformer, one of its layers or nn.MultiheadAttention"
        raise invalid("module", expected, type(module).__name__, "convert its parts one by one")
    ours.to(next(module.parameters()))
    with torch.no_grad():
        for name, our, their in pairs(ours, module):
            if our is not None:
                our.copy_(torch.zeros_like(our) if their is None else fitting(name, their, our))
            elif their is not None and their.any():
                fix = "leave out attention_bias=False, norm_bias=False and bias=False"
                raise invalid(name, "no bias", "one that is not zero", fix)
    return ours.train(module.training)


def torch_masks(source: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Our masks in the words of nn.Transformer's forward, where True means "hidden"."""
    return {
        "tgt_mask": ~causal_mask(target.shape[1], device=target.device),
        "src_key_padding_mask": source == PADDING,
        "tgt_key_padding_mask": target == PADDING,
        "memory_key_padding_mask": source == PADDING,
    }


# --- Their modules from our configuration -----------------------------------------------------


def _torch_options(config: LayerConfig) -> dict[str, Any]:
    """The options of a torch layer; it has biases if any part of ours has."""
    biases = (config.bias, config.attention_bias, config.norm_bias)
    return {
        "d_model": config.d_model,
        "nhead": config.n_heads,
        "dim_feedforward": config.d_ff,
        "dropout": config.dropout,
        "activation": config.activation,
        "layer_norm_eps": config.norm_eps,
        "norm_first": config.norm == "pre",
        "bias": any(biases),
        "batch_first": True,
    }


def _torch_layer(layer: Layer, place: dict[str, Any]) -> nn.Module:
    options = _torch_options(layer.config)
    theirs: TorchLayer
    if isinstance(layer, EncoderLayer):
        theirs = nn.TransformerEncoderLayer(**options, **place)
    else:
        theirs = nn.TransformerDecoderLayer(**options, **place)
    _set_inner_dropout(theirs, layer.config)
    return theirs


def _torch_transformer(config: TransformerConfig, place: dict[str, Any]) -> nn.Transformer:
    options = _torch_options(config)

    def norm() -> nn.Module | None:
        if not config.has_final_norm:
            return None
        return nn.LayerNorm(config.d_model, config.norm_eps, bias=options["bias"], **place)

    encoder_layer = nn.TransformerEncoderLayer(**options, **place)
    decoder_layer = nn.TransformerDecoderLayer(**options, **place)
    # Nested tensors would zero the memory's padding, and warn where they cannot be used.
    encoder = nn.TransformerEncoder(
        encoder_layer, config.n_layers, norm(), enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(decoder_layer, config.decoder_layers, norm())
    theirs = nn.Transformer(
        config.d_model,
        config.n_heads,
        custom_encoder=encoder,
        custom_decoder=decoder,
        batch_first=True,
    )
    _set_inner_dropout(theirs, config)
    return theirs


def _set_inner_dropout(theirs: nn.Module, config: LayerConfig) -> None:
    p = config.attention_options()["dropout"]
    for module in theirs.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = p
        elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            module.dropout.p = p


# --- Our configuration from their modules -----------------------------------------------------


def _transformer_config(
    module: nn.Transformer, config: TransformerConfig | None, options: dict[str, Any]
) -> TransformerConfig:
    layers = [*module.encoder.layers, *module.decoder.layers]
    found = [_layer_options(layer) for layer in layers]
    for other in found[1:]:
        if other != found[0]:
            fix = "convert its layers one by one"
            raise invalid("module", f"layers that are all alike, {found[0]}", other, fix)
    norms = [part.norm is not None for part in (module.encoder, module.decoder)]
    if norms[0] != norms[1]:
        fix = "convert its layers one by one"
        raise invalid("module", "a final norm on both stacks or on neither", "one", fix)
    found[0] |= {
        "n_layers": len(module.encoder.layers),
        "n_decoder_layers": len(module.decoder.layers),
        "final_norm": norms[0],
    }
    if config is None:
        missing = [name for name in ("source_vocab", "target_vocab") if name not in options]
        if missing:
            fix = "nn.Transformer has no embeddings that would tell their sizes"
            raise invalid(missing[0], "the size of a vocabulary", "nothing", fix)
        return TransformerConfig(**{**found[0], **options})
    if options:
        fix = "put everything into the configuration"
        raise invalid("options", "none beside a config", sorted(options), fix)
    _check_same(config, TransformerConfig(source_vocab=1, target_vocab=1, **found[0]))
    return config


def _check_same(config: TransformerConfig, found: TransformerConfig) -> None:
    """What changes the outputs but not the shapes must agree."""
    for name in _SILENT:
        ours, theirs = getattr(config, name), getattr(found, name)
        if ours != theirs:
            raise invalid(f"config.{name}", f"{theirs!r} as in the module", repr(ours), "change it")


_SILENT = (
    "n_heads", "norm", "norm_eps", "activation", "n_layers", "decoder_layers", "has_final_norm",
)  # fmt: skip


def _layer_options(layer: TorchLayer) -> dict[str, Any]:
    """What a torch layer says about itself, in the words of LayerConfig."""
    attentions = [part for part in layer.modules() if isinstance(part, nn.MultiheadAttention)]
    for attention in attentions:
        _refuse_extras(attention)
    known: dict[Any, str] = {F.relu: "relu", F.gelu: "gelu", nn.ReLU: "relu", nn.GELU: "gelu"}
    activation: Any = layer.activation
    named = known.get(type(activation) if isinstance(activation, nn.Module) else activation)
    if named is None:
        fix = "use F.relu or F.gelu"
        raise invalid("module", "the activation relu or gelu", layer.activation, fix)
    if any(attention.dropout != layer.dropout.p for attention in attentions):
        fix = "set both to the same probability"
        raise invalid("module", "one dropout inside attention and feed-forward", "two", fix)
    return {
        "d_model": attentions[0].embed_dim,
        "n_heads": attentions[0].num_heads,
        "d_ff": layer.linear1.out_features,
        "dropout": layer.dropout1.p,
        "inner_dropout": layer.dropout.p,
        "norm": "pre" if layer.norm_first else "post",
        "norm_eps": layer.norm1.eps,
        "activation": named,
        "bias": layer.linear1.bias is not None,
    }


def _refuse_extras(attention: nn.MultiheadAttention) -> None:
    if attention.bias_k is not None or attention.add_zero_attn:
        expected = "attention without add_bias_kv and add_zero_attn"
        fix = "they are not part of the paper's attention and have no counterpart here"
        raise invalid("module", expected, "one of them", fix)
