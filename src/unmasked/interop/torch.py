"""Converts the whole model and its parts to modules of `torch.nn`, and back.

Both directions copy along the same list of pairs (our tensor, theirs). Where one side has no bias,
the other side's is zero.
"""

from collections.abc import Iterator
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
    """Returns a new `torch.nn` module that computes the same, with a copy of the weights.

    A Transformer becomes an nn.Transformer, which has no embeddings and no generator; an
    EncoderLayer, DecoderLayer or MultiHeadAttention becomes its namesake. All are batch_first.
    """
    require_type("module", module, *KINDS, MultiHeadAttention)
    require_as_configured(module)
    like = next(module.parameters())
    theirs = counterpart(module, device=like.device, dtype=like.dtype)
    with torch.no_grad():
        for name, our, their in matching_tensors(module, theirs):
            if their is not None:
                their.copy_(torch.zeros_like(their) if our is None else fitting(name, our, their))
    return theirs.train(module.training)


def from_torch(module: nn.Module, config: TransformerConfig | None = None, **options: Any) -> Any:
    """Returns a new module of this package that computes what a `torch.nn` module does.

    Args:
        module: an nn.Transformer, TransformerEncoderLayer, TransformerDecoderLayer or
            MultiheadAttention.
        config: for an nn.Transformer, the whole configuration; embeddings and generator are new.
        options: instead of a config, what the module does not know: `source_vocab=…,
            target_vocab=…`, and other options of TransformerConfig.
    """
    parts = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.MultiheadAttention)
    require_type("module", module, nn.Transformer, *parts)
    if isinstance(module, parts) + (config is not None) + bool(options) > 1:
        expected = "none beside a config, and neither for a part"
        raise invalid("options", expected, sorted(options) or config, "leave one out")
    if isinstance(module, nn.MultiheadAttention):
        dropout, bias = module.dropout, module.in_proj_bias is not None
        sizes = module.embed_dim, module.num_heads
        ours: Any = MultiHeadAttention(*sizes, dropout=dropout, bias=bias)
        require_as_made(module, ours)
    elif isinstance(module, nn.Transformer):
        first, last_norm = module.encoder.layers[0], module.encoder.norm
        given = {**layer_options(first), "final_norm": last_norm is not None}
        for name, stack in (("n_layers", module.encoder), ("n_decoder_layers", module.decoder)):
            given[name] = len(stack.layers)
        own = TransformerConfig(source_vocab=1, target_vocab=1, **given)
        require_as_made(module, without_numbers(own), first)
        config = TransformerConfig(**{**given, **options}) if config is None else config
        require_same(config, own)
        ours = Transformer(config)
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


KINDS = (Transformer, EncoderLayer, DecoderLayer)  # those with a configuration


def require_as_configured(module: Any) -> None:
    """Raises ValueError if a submodule is not what the module's own configuration makes."""
    with torch.device("meta"):
        if isinstance(module, MultiHeadAttention):
            dropout, bias = module.dropout, module.query.bias is not None
            sizes = module.d_model, module.n_heads
            twin: Any = MultiHeadAttention(*sizes, dropout=dropout, bias=bias)
        else:
            kind: Any = next(kind for kind in KINDS if isinstance(module, kind))
            twin = kind(module.config)
    paths = differences(module, twin)
    if isinstance(module, Transformer):  # whose embeddings and generator are not converted
        apart = ("source_embedding", "target_embedding", "generator")
        paths = [path for path in paths if not path.startswith(apart)]
    if paths:
        fix = "convert the parts that are as they were made"
        raise invalid("module", "parts as configured", f"another {paths[0]}", fix)


def require_as_made(module: nn.Module, ours: nn.Module, layer: Any = None) -> None:
    """Raises ValueError unless torch.nn makes this module by the options of `ours` and `layer`."""
    given: Any = {}
    if layer is not None:
        given = {"activation": layer.activation, "bias": layer.linear1.bias is not None}
    with Undrawn():
        twin = counterpart(ours, device="meta", **given)
    ignored = ("batch_first", "enable_nested_tensor", "use_nested_tensor", "mask_check")
    paths = differences(module, twin, ignored)
    if isinstance(module, nn.Transformer):
        paths = [path for path in paths if path.startswith(("encoder", "decoder"))]
    if any(part._forward_hooks or part._forward_pre_hooks for part in module.modules()):
        paths.append("output: a hook may change it")
    if paths:
        expected = "PyTorch's own parts, layers alike, one dropout, final norms or none"
        fix = "change it, or convert its layers one by one"
        raise invalid("module", expected, f"another {paths[0]}", fix)


def torch_masks(source: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Returns nn.Transformer's mask arguments for token IDs [B, S] and [B, T]; True hides."""
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
    """Yields each parameter's name here, our tensor and torch.nn's, or a view; None for no bias."""
    mine = dict(ours.named_parameters(remove_duplicate=False))
    if isinstance(ours, Transformer):  # whose embeddings and generator are not converted
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
    """Returns `source` shaped like `like`, with or without a convolution's last axis of size 1."""
    if source.dim() != like.dim():
        source = source.squeeze(-1) if source.dim() > like.dim() else source.unsqueeze(-1)
    if source.shape != like.shape:
        fix = "the two modules must have the same sizes"
        raise invalid(name, f"shape {list(like.shape)}", list(source.shape), fix)
    return source


def counterpart(ours: Any, **options: Any) -> nn.Module:
    """Returns torch.nn's module for ours, with new weights and, like our norms, with biases."""
    if isinstance(ours, MultiHeadAttention):
        options = {"dropout": ours.dropout, "bias": ours.query.bias is not None, **options}
        return nn.MultiheadAttention(ours.d_model, ours.n_heads, batch_first=True, **options)
    config: Any = ours.config
    options = {
        "d_model": config.d_model, "nhead": config.n_heads, "dim_feedforward": config.d_ff,
        "dropout": config.dropout, "activation": ACTIVATION[config.activation],
        "norm_first": config.norm == "pre", "layer_norm_eps": config.norm_eps,
        "bias": True, "batch_first": True, **options,
    }  # fmt: skip
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
        given: Any = {name: options.get(name) for name in ("bias", "device", "dtype")}
        norms = [nn.LayerNorm(config.d_model, config.norm_eps, **given) for _ in norms]
    encoder_layer = nn.TransformerEncoderLayer(**options)
    decoder_layer = nn.TransformerDecoderLayer(**options)
    # Nested tensors would zero the memory's padding, and warn where they cannot be used.
    encoder = nn.TransformerEncoder(encoder_layer, config.n_layers, norms[0], False)
    decoder = nn.TransformerDecoder(decoder_layer, config.decoder_layers, norms[1])
    stacks: Any = {"custom_encoder": encoder, "custom_decoder": decoder}
    return nn.Transformer(config.d_model, config.n_heads, **stacks, batch_first=True)


# --- Our configuration from their modules -----------------------------------------------------


def require_same(config: TransformerConfig, own: TransformerConfig) -> None:
    """Raises ValueError if `config` contradicts `own`, which was read from the converted module."""
    unshaped = "n_heads norm norm_eps activation n_layers decoder_layers has_final_norm"
    for name in unshaped.split():  # no weight's shape shows these
        ours, theirs = getattr(config, name), getattr(own, name)
        if ours != theirs:
            raise invalid(f"config.{name}", f"{theirs!r} as in the module", repr(ours), "change it")


def layer_options(layer: Any) -> dict[str, Any]:
    """Returns the options of a LayerConfig that describe torch.nn's encoder or decoder layer."""
    known: dict[Any, str] = {function: name for name, function in ACTIVATION.items()}
    known |= {nn.ReLU: "relu", nn.GELU: "gelu", nn.SiLU: "swish"}
    activation: Any = layer.activation
    named = known.get(type(activation) if isinstance(activation, nn.Module) else activation)
    if named is None or getattr(activation, "approximate", "none") != "none":
        fix = "use F.relu, F.gelu or F.silu"
        raise invalid("module", "the activation relu, gelu or swish", activation, fix)
    return {
        "d_model": layer.self_attn.embed_dim, "n_heads": layer.self_attn.num_heads,
        "d_ff": layer.linear1.out_features, "bias": layer.linear1.bias is not None,
        "dropout": layer.dropout1.p, "inner_dropout": layer.dropout.p, "activation": named,
        "norm": "pre" if layer.norm_first else "post", "norm_eps": layer.norm1.eps,
    }  # fmt: skip
