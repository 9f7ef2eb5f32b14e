"""Puts our weights into CTranslate2, the C++ library, so that both write the same tokens."""

from tempfile import TemporaryDirectory
from typing import Any

import ctranslate2
import torch
from ctranslate2.converters.utils import fuse_linear
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import Activation, LinearSpec
from torch import Tensor

from unmasked import Transformer
from unmasked.tokens import BOS, EOS, PADDING


class CTranslate2:
    """CTranslate2 searches in float32 on the CPU, with as many threads as PyTorch has."""

    def __init__(self, model: Transformer) -> None:
        with TemporaryDirectory() as folder:
            converted(model).save(folder)
            self.translator = ctranslate2.Translator(
                folder, intra_threads=torch.get_num_threads(), compute_type="float32"
            )

    def search(self, source: Tensor, width: int, n: int) -> list[list[str]]:
        """Returns token IDs as text, which is all that CTranslate2 reads and writes."""
        rows = [[str(token) for token in row if token != PADDING] for row in source.tolist()]
        found = self.translator.translate_batch(
            rows, beam_size=width, max_decoding_length=n, length_penalty=0.6
        )
        return [result.hypotheses[0] for result in found]


def converted(model: Transformer) -> TransformerSpec:
    config = model.config
    words = [str(token) for token in range(config.source_vocab)]
    assert config.norm == "pre", "CTranslate2 has no final norm after post-norm layers"
    options: Any = {"pre_norm": True, "activation": Activation[config.activation.upper()]}
    spec = TransformerSpec.from_config(config.n_layers, config.n_heads, **options)
    spec.config.layer_norm_epsilon = config.norm_eps
    spec.config.bos_token = spec.config.decoder_start_token = words[BOS]
    spec.config.eos_token, spec.config.unk_token = words[EOS], words[PADDING]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    sides = ((spec.encoder, model.source_embedding, model.encoder),
             (spec.decoder, model.target_embedding, model.decoder))  # fmt: skip
    for side, embedding, stack in sides:
        (table,) = side.embeddings if isinstance(side.embeddings, list) else [side.embeddings]
        table.weight = array(embedding.tokens.weight)
        nothing = torch.zeros(1, config.max_len, config.d_model)
        side.position_encodings.encodings = array(embedding.positions(nothing)[0])
        norm(side.layer_norm, stack.norm)
        for theirs, ours in zip(side.layer, stack.layers, strict=True):
            layer(theirs, ours)
    linear(spec.decoder.projection, model.generator)
    spec.validate()
    return spec


def layer(theirs: Any, ours: Any) -> None:
    own, across = ours.self_attention, getattr(ours, "cross_attention", None)
    linear(theirs.self_attention.linear[0], own.query, own.key, own.value)
    linear(theirs.self_attention.linear[1], own.output)
    residual = ours.self_residual if across else ours.attention_residual
    norm(theirs.self_attention.layer_norm, residual.norm)
    if across:
        linear(theirs.attention.linear[0], across.query)
        linear(theirs.attention.linear[1], across.key, across.value)
        linear(theirs.attention.linear[2], across.output)
        norm(theirs.attention.layer_norm, ours.cross_residual.norm)
    linear(theirs.ffn.linear_0, ours.feed_forward.expand)
    linear(theirs.ffn.linear_1, ours.feed_forward.contract)
    norm(theirs.ffn.layer_norm, ours.feed_forward_residual.norm)


def linear(spec: LinearSpec, *parts: Any) -> None:
    specs = []
    for part in parts:
        specs.append(LinearSpec())
        specs[-1].weight = array(part.weight)
        if part.bias is not None:
            specs[-1].bias = array(part.bias)
    fuse_linear(spec, specs)


def norm(spec: Any, module: Any) -> None:
    spec.gamma, spec.beta = array(module.weight), array(module.bias)


def array(tensor: Tensor) -> Any:
    return tensor.detach().float().numpy()
