"""Weights to and from `torch.nn`, for the whole model and for its parts.

Both directions walk the same list of pairs (our tensor, theirs). A bias that one side does not
have is a zero on the other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .attention import MultiHeadAttention
from .config import LayerConfig, TransformerConfig
from .correspondence import fitting, pairs
from .decoder import DecoderLayer
from .encoder import EncoderLayer
from .masks import causal_mask
from .special import PADDING
from .torch_options import (
    layer_options,
    refuse_extras,
    torch_layer,
    torch_transformer,
    transformer_config,
)
from .transformer import Transformer
from .validation import check_type, invalid


def to_torch(module: nn.Module) -> Any:
    """The `torch.nn` module that computes the same: a new one, with a copy of the weights.

    Transformer → nn.Transformer (without embeddings and generator, which that class lacks),
    EncoderLayer, DecoderLayer and MultiHeadAttention → their namesakes. All are batch_first.
    """
    check_type("module", module, Transformer, EncoderLayer, DecoderLayer, MultiHeadAttention)
    like = next(module.parameters())
    place: dict[str, Any] = {"device": like.device, "dtype": like.dtype}
    theirs: nn.Module
    if isinstance(module, Transformer):
        theirs = torch_transformer(module.config, place)
    elif isinstance(module, EncoderLayer | DecoderLayer):
        theirs = torch_layer(module, place)
    else:
        assert isinstance(module, MultiHeadAttention)
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
    parts = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.MultiheadAttention)
    check_type("module", module, nn.Transformer, *parts)
    if isinstance(module, parts) and (config is not None or options):
        fix = "a part says everything about itself"
        raise invalid("options", "none", config or sorted(options), fix)
    ours: nn.Module
    if isinstance(module, nn.Transformer):
        ours = Transformer(transformer_config(module, config, options))
    elif isinstance(module, nn.TransformerEncoderLayer):
        ours = EncoderLayer(LayerConfig(**layer_options(module)))
    elif isinstance(module, nn.TransformerDecoderLayer):
        ours = DecoderLayer(LayerConfig(**layer_options(module)))
    else:
        assert isinstance(module, nn.MultiheadAttention)
        refuse_extras(module)
        ours = MultiHeadAttention(
            module.embed_dim,
            module.num_heads,
            dropout=module.dropout,
            bias=module.in_proj_bias is not None,
            key_width=module.kdim,
            value_width=module.vdim,
        )
    ours.to(next(module.parameters()))
    with torch.no_grad():
        for name, our, their in pairs(ours, module):
            if our is not None:
                our.copy_(torch.zeros_like(our) if their is None else fitting(name, their, our))
            elif their is not None and not their.is_meta and their.any():
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
