"""Weights to and from `torch.nn`, for the whole model and for its parts.

Both directions walk the same list of pairs (our tensor, theirs). A bias that one side does not
have is a zero on the other.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..attention import MultiHeadAttention
from ..config import LayerConfig, TransformerConfig
from ..decoder import DecoderLayer
from ..encoder import EncoderLayer
from ..errors import invalid, require_type
from ..feed_forward import ACTIVATION
from ..masks import causal_mask
from ..structure import differences
from ..tokens import PADDING
from ..transformer import Transformer, Undrawn, without_numbers


def to_torch(module: nn.Module) -> Any:
    """The `torch.nn` module that computes the same: a new one, with a copy of the weights.

    Args:
        module: a Transformer, which becomes an nn.Transformer (without embeddings and generator,
            which that class lacks); or an EncoderLayer, DecoderLayer or MultiHeadAttention, which
            become their namesakes. All are batch_first.
    """
    require_type("module", module, Transformer, EncoderLayer, DecoderLayer, MultiHeadAttention)
    require_as_configured(module)
    like = next(module.parameters())
    theirs = counterpart(module, device=like.device, dtype=like.dtype)
    with torch.no_grad():
        for name, our, their in matching_tensors(module, theirs):
            if their is not None:
                their.copy_(torch.zeros_like(their) if our is None else fitting(name, our, their))
    return theirs.train(module.training)


def from_torch(module: nn.Module, config: TransformerConfig | None = None, **options: Any) -> Any:
    """Our counterpart of a `torch.nn` module: a new one, with a copy of the weights.

    Args:
        module: an nn.Transformer, TransformerEncoderLayer, TransformerDecoderLayer or
            MultiheadAttention.
        config: a whole configuration, of an nn.Transformer only; embeddings and generator are new.
        options: or what it does not know, `source_vocab=…, target_vocab=…`, and other options of
            TransformerConfig.
    """
    parts = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.MultiheadAttention)
    require_type("module", module, nn.Transformer, *parts)
    if isinstance(module, parts) and (config is not None or options):
        fix = "a part says everything about itself"
        raise invalid("options", "none", config or sorted(options), fix)
    if isinstance(module, nn.MultiheadAttention):
        given = {"dropout": module.dropout, "bias": module.in_proj_bias is not None}
        ours: Any = MultiHeadAttention(module.embed_dim, module.num_heads, **given)
        require_as_made(module, ours)
    elif isinstance(module, nn.Transformer):
        own = TransformerConfig(source_vocab=1, target_vocab=1, **stack_options(module))
        require_as_made(module, without_numbers(own), module.encoder.layers[0])
        ours = Transformer(chosen(own, config, options))
    else:
        kind = EncoderLayer if isinstance(module, nn.TransformerEncoderLayer) else DecoderLayer
        ours = kind(LayerConfig(**layer_options(module)))
        require_as_made(module, ours, module)
    ours.to(next(module.parameters()))
    with torch.no_grad():
        for name, our, their in matching_tensors(ours, module):
            if our is not None:
                our.copy_(torch.zeros_like(our) if their is None else fitting(name, their, our))
            elif their is not None and not their.is_meta and their.any():
                fix = "leave out attention_bias=False and bias=False"
                raise invalid(name, "no bias", "one that is not zero", fix)
    return ours.train(module.training)


def require_as_configured(module: Any) -> None:
    """Refuses what was changed after it was made: its counterpart is made by the configuration."""
    with torch.device("meta"):
        if isinstance(module, MultiHeadAttention):
            given: Any = {"dropout": module.dropout, "bias": module.query.bias is not None}
            twin: nn.Module = MultiHeadAttention(module.d_model, module.n_heads, **given)
        else:
            kinds = (Transformer, EncoderLayer, DecoderLayer)  # or made from one of them
            kind: Any = next(kind for kind in kinds if isinstance(module, kind))
            twin = kind(module.config)
    paths = differences(module, twin)
    if isinstance(module, Transformer):  # embeddings and generator stay here
        ours = ("source_embedding", "target_embedding", "generator")
        paths = [path for path in paths if not path.startswith(ours)]
    if paths:
        fix = "convert the parts that are as they were made"
        raise invalid("module", "parts as configured", f"another {paths[0]}", fix)


def require_as_made(module: nn.Module, ours: nn.Module, layer: Any = None) -> None:
    """Refuses what PyTorch would not make by the options that were read from the first layer."""
    given: Any = {}
    if layer is not None:
        given = {"activation": layer.activation, "bias": layer.linear1.bias is not None}
    with Undrawn():
        twin = counterpart(ours, device="meta", **given)
    paths = differences(module, twin, OF_A_CALL)
    if isinstance(module, nn.Transformer):
        paths = [path for path in paths if path.startswith(("encoder", "decoder"))]
    if paths:
        expected = "PyTorch's own parts, layers alike, one dropout, final norms or none"
        fix = "change it, or convert its layers one by one"
        raise invalid("module", expected, f"another {paths[0]}", fix)


OF_A_CALL = ("batch_first", "enable_nested_tensor", "use_nested_tensor", "mask_check")


def torch_masks(source: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Our masks in the words of nn.Transformer's forward, where True means "hidden"."""
    return {
        "tgt_mask": ~causal_mask(target.shape[1], device=target.device),
        "src_key_padding_mask": source == PADDING,
        "tgt_key_padding_mask": target == PADDING,
        "memory_key_padding_mask": source == PADDING,
    }


NAMES = {  # what PyTorch calls the parts of our layers
    "self_attn.": "self_attention.",
    "multihead_attn.": "cross_attention.",
    "out_proj.": "output.",
    "linear1.": "feed_forward.expand.",
    "linear2.": "feed_forward.contract.",
}
Matches = Iterator[tuple[str, Tensor | None, Tensor | None]]


def matching_tensors(ours: nn.Module, theirs: nn.Module) -> Matches:
    """(our name, our tensor, their tensor); tensors may be views, None where one has no bias."""
    mine = dict(ours.named_parameters(remove_duplicate=False))
    if isinstance(ours, Transformer):  # embeddings and generator stay here
        mine = {name: x for name, x in mine.items() if name.startswith(("encoder", "decoder"))}
    found: dict[str, Tensor] = {}
    for name, tensor in theirs.named_parameters(remove_duplicate=False):
        decodes = isinstance(ours, DecoderLayer) or name.startswith("decoder")
        before_feed_forward = ("self", "cross") if decodes else ("attention",)
        residuals = enumerate((*before_feed_forward, "feed_forward"), 1)
        norms = {f"norm{number}.": f"{each}_residual.norm." for number, each in residuals}
        for old, new in {**NAMES, **norms}.items():
            name = name.replace(old, new)
        if "in_proj_" in name:
            for part, share in zip(("query.", "key.", "value."), tensor.chunk(3), strict=True):
                found[name.replace("in_proj_", part)] = share
        else:
            found[name] = tensor
    for name in {**mine, **found}:
        yield name, mine.get(name), found.get(name)


def fitting(name: str, source: Tensor, like: Tensor) -> Tensor:
    """A convolution's [out, in, 1] and a matrix [out, in] hold the same numbers."""
    if source.dim() != like.dim():
        source = source.squeeze(-1) if source.dim() > like.dim() else source.unsqueeze(-1)
    if source.shape != like.shape:
        fix = "the two modules must have the same sizes"
        raise invalid(name, f"shape {list(like.shape)}", list(source.shape), fix)
    return source


def counterpart(ours: Any, **options: Any) -> nn.Module:
    """What torch.nn has for it, with numbers of its own; all biases, as our norms have theirs."""
    if isinstance(ours, MultiHeadAttention):
        bias, sizes = ours.query.bias is not None, (ours.d_model, ours.n_heads)
        given = {"dropout": ours.dropout, "batch_first": True, "bias": bias, **options}
        return nn.MultiheadAttention(*sizes, **given)
    config: Any = ours.config
    options = {
        "d_model": config.d_model,
        "nhead": config.n_heads,
        "dim_feedforward": config.d_ff,
        "dropout": config.dropout,
        "activation": ACTIVATION[config.activation],
        "layer_norm_eps": config.norm_eps,
        "norm_first": config.norm == "pre",
        "bias": True,
        "batch_first": True,
        **options,
    }
    if isinstance(ours, Transformer):
        theirs = torch_transformer(config, options)
    else:
        encodes = isinstance(ours, EncoderLayer)
        kind: Any = nn.TransformerEncoderLayer if encodes else nn.TransformerDecoderLayer
        theirs = kind(**options)
    for module in theirs.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = config.dropout_inside
        elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            module.dropout.p = config.dropout_inside
    return theirs


def torch_transformer(config: TransformerConfig, options: dict[str, Any]) -> nn.Module:
    norms: list[nn.LayerNorm | None] = [None, None]
    if config.has_final_norm:
        place = {key: options[key] for key in ("bias", "device", "dtype") if key in options}
        norms = [nn.LayerNorm(config.d_model, config.norm_eps, **place) for _ in norms]
    encoder_layer = nn.TransformerEncoderLayer(**options)
    decoder_layer = nn.TransformerDecoderLayer(**options)
    # Nested tensors would zero the memory's padding, and warn where they cannot be used.
    encoder = nn.TransformerEncoder(
        encoder_layer, config.n_layers, norms[0], enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(decoder_layer, config.decoder_layers, norms[1])
    stacks: Any = {"custom_encoder": encoder, "custom_decoder": decoder}
    return nn.Transformer(config.d_model, config.n_heads, **stacks, batch_first=True)


# --- Our configuration from their modules -----------------------------------------------------


def chosen(
    own: TransformerConfig, config: TransformerConfig | None, options: dict[str, Any]
) -> TransformerConfig:
    """What was asked for, if it does not contradict the module's own."""
    if config is None:
        missing = [name for name in ("source_vocab", "target_vocab") if name not in options]
        if missing:
            fix = "nn.Transformer has no embeddings that would tell their sizes"
            raise invalid(missing[0], "the size of a vocabulary", "nothing", fix)
        config = replace(own, **options)
    elif options:
        fix = "put everything into the configuration"
        raise invalid("options", "none beside a config", sorted(options), fix)
    require_type("config", config, TransformerConfig)
    for name in _SILENT:
        ours, theirs = getattr(config, name), getattr(own, name)
        if ours != theirs:
            raise invalid(f"config.{name}", f"{theirs!r} as in the module", repr(ours), "change it")
    return config


_SILENT = (  # what changes the outputs but not the shapes
    "n_heads", "norm", "norm_eps", "activation", "n_layers", "decoder_layers", "has_final_norm",
)  # fmt: skip


def stack_options(module: nn.Transformer) -> dict[str, Any]:
    """What a Transformer of torch says about itself, in the words of TransformerConfig."""
    stacks = module.encoder, module.decoder
    for stack, kind in zip(stacks, (nn.TransformerEncoder, nn.TransformerDecoder), strict=True):
        if not isinstance(stack, kind):
            expected, fix = f"stacks of PyTorch, {kind.__name__}", "convert its layers one by one"
            raise invalid("module", expected, type(stack).__name__, fix)
    return {
        **layer_options(module.encoder.layers[0]),
        "n_layers": len(module.encoder.layers),
        "n_decoder_layers": len(module.decoder.layers),
        "final_norm": module.encoder.norm is not None,
    }


def layer_options(layer: Any) -> dict[str, Any]:
    """What a layer of torch says about itself, in the words of LayerConfig."""
    known: dict[Any, str] = {function: name for name, function in ACTIVATION.items()}
    known |= {nn.ReLU: "relu", nn.GELU: "gelu", nn.SiLU: "swish"}
    activation: Any = layer.activation
    named = known.get(type(activation) if isinstance(activation, nn.Module) else activation)
    if named is None or getattr(activation, "approximate", "none") != "none":
        fix = "use F.relu, F.gelu or F.silu"
        raise invalid("module", "the activation relu, gelu or swish", activation, fix)
    try:
        return {
            "d_model": layer.self_attn.embed_dim,
            "n_heads": layer.self_attn.num_heads,
            "d_ff": layer.linear1.out_features,
            "dropout": layer.dropout1.p,
            "inner_dropout": layer.dropout.p,
            "norm": "pre" if layer.norm_first else "post",
            "norm_eps": layer.norm1.eps,
            "activation": named,
            "bias": layer.linear1.bias is not None,
        }
    except AttributeError as error:
        raise invalid("module", "PyTorch's own parts", str(error), "change it back") from None
