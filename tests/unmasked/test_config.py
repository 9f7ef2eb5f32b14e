"""The configuration knows the paper's models, and reaches every part of a model."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from helpers import small_config
from unmasked import PRESETS, Transformer, TransformerConfig

SHARED = {"source_vocab": 37_000, "target_vocab": 37_000}  # of the paper's English and German


@pytest.mark.parametrize(("name", "sizes", "millions", "parameters"), [
    ("base", (512, 8, 2048, 6, 5000), 65, 63_045_632),
    ("big", (1024, 16, 4096, 6, 5000), 213, 214_171_648),
])  # fmt: skip
def test_the_papers_models_have_the_papers_size(name, sizes, millions, parameters):
    """Table 3 has their sizes, with about 37,000 shared tokens."""
    config = TransformerConfig.preset(name, **SHARED)
    assert vars(config).items() >= PRESETS[name].items()
    assert (config.d_model, config.n_heads, config.d_ff, config.n_layers, config.max_len) == sizes
    assert config.embedding_std == config.d_model**-0.5
    with torch.device("meta"):
        assert Transformer(config).count_parameters() == parameters
    assert parameters / 1e6 == pytest.approx(millions, rel=0.04)
    changes = {"n_heads": 2, "dropout": 0.25}
    assert TransformerConfig.preset(name, **SHARED, **changes) == replace(config, **changes)


def test_the_configuration_reaches_every_part():
    model = Transformer(small_config(
        n_decoder_layers=3, dropout=0.2, inner_dropout=0.3, norm="pre", norm_eps=1e-3,
        attention_bias=False, max_len=9, activation="gelu",
    ))  # fmt: skip
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (2, 3)
    layer = model.decoder.layers[2]
    assert layer.self_attention.query.bias is None
    assert layer.feed_forward.expand.bias is not None
    assert layer.feed_forward.activation is F.gelu
    assert layer.cross_residual.norm.bias is not None
    assert layer.cross_residual.norm.eps == model.encoder.norm.eps == 1e-3
    assert layer.cross_residual.dropout.p == model.source_embedding.dropout.p == 0.2
    assert layer.feed_forward.dropout.p == layer.cross_attention.dropout == 0.3
    assert len(model.source_embedding.positions.table) == 9
    assert small_config(dropout=0.2).dropout_inside == 0.2  # unless it is given
