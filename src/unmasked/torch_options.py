"""The options of `torch.nn` modules in the words of our configuration, and the other way round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.nn import functional as F

from .config import LayerConfig, TransformerConfig
from .decoder import DecoderLayer
from .encoder import EncoderLayer
from .validation import check_type, invalid

Layer = EncoderLayer | DecoderLayer
TorchLayer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer


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


def torch_layer(layer: Layer, place: dict[str, Any]) -> nn.Module:
    options = _torch_options(layer.config)
    theirs: TorchLayer
    if isinstance(layer, EncoderLayer):
        theirs = nn.TransformerEncoderLayer(**options, **place)
    else:
        theirs = nn.TransformerDecoderLayer(**options, **place)
    _set_inner_dropout(theirs, layer.config)
    return theirs


def torch_transformer(config: TransformerConfig, place: dict[str, Any]) -> nn.Transformer:
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


def transformer_config(
    module: nn.Transformer, config: TransformerConfig | None, options: dict[str, Any]
) -> TransformerConfig:
    one_by_one = "convert its layers one by one"
    for stack, kind in (
        (module.encoder, nn.TransformerEncoder),
        (module.decoder, nn.TransformerDecoder),
    ):
        if not isinstance(stack, kind):
            raise invalid(
                "module", f"stacks of PyTorch, {kind.__name__}", type(stack).__name__, one_by_one
            )
    layers = [*module.encoder.layers, *module.decoder.layers]
    found = [layer_options(layer) for layer in layers]
    for other in found[1:]:
        if other != found[0]:
            raise invalid("module", f"layers that are all alike, {found[0]}", other, one_by_one)
    norms = [part.norm is not None for part in (module.encoder, module.decoder)]
    if norms[0] != norms[1]:
        raise invalid("module", "a final norm on both stacks or on neither", "one", one_by_one)
    for part in (module.encoder, module.decoder):
        _check_norms([*([part.norm] if norms[0] else []), part.layers[0].norm1])
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
        config = TransformerConfig(**{**found[0], **options})
    elif options:
        fix = "put everything into the configuration"
        raise invalid("options", "none beside a config", sorted(options), fix)
    check_type("config", config, TransformerConfig)
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


def layer_options(layer: TorchLayer) -> dict[str, Any]:
    """What a torch layer says about itself, in the words of LayerConfig."""
    attentions = [part for part in layer.modules() if isinstance(part, nn.MultiheadAttention)]
    for attention in attentions:
        refuse_extras(attention)
    known: dict[Any, str] = {F.relu: "relu", F.gelu: "gelu", nn.ReLU: "relu", nn.GELU: "gelu"}
    _check_norms([part for name, part in layer.named_children() if name.startswith("norm")])
    outer = {
        part.p
        for name, part in layer.named_children()
        if isinstance(part, nn.Dropout) and name != "dropout"
    }
    if len(outer) > 1:
        fix = "set them to the same probability"
        raise invalid("module", "one dropout on all sublayers", sorted(outer), fix)
    activation: Any = layer.activation
    named = known.get(type(activation) if isinstance(activation, nn.Module) else activation)
    if named is None or getattr(activation, "approximate", "none") != "none":
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


def _check_norms(norms: Sequence[nn.Module | None]) -> None:
    """All of them must be LayerNorms with weights, and of one epsilon."""
    kinds = {
        (type(norm).__name__, getattr(norm, "eps", None), getattr(norm, "weight", None) is not None)
        for norm in norms
    }
    if len(kinds) > 1 or next(iter(kinds))[::2] != ("LayerNorm", True):
        fix = "nothing else is in our configuration"
        raise invalid("module", "LayerNorms with weights and one epsilon", sorted(kinds), fix)


def refuse_extras(attention: nn.MultiheadAttention) -> None:
    if attention.bias_k is not None or attention.add_zero_attn:
        expected = "attention without add_bias_kv and add_zero_attn"
        fix = "they are not part of the paper's attention and have no counterpart here"
        raise invalid("module", expected, "one of them", fix)
