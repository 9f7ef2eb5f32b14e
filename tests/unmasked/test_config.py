"""The configuration: what it knows by name, what follows from it, and where it arrives."""

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from helpers import VOCABULARY, small_config
from unmasked import PRESETS, Transformer, TransformerConfig


def preset(name, **changes):
    sizes = {"source_vocab": VOCABULARY, "target_vocab": VOCABULARY}
    return TransformerConfig.preset(name, **{**sizes, **changes})


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_what_it_says_and_the_default_elsewhere(name):
    default = TransformerConfig(source_vocab=VOCABULARY, target_vocab=VOCABULARY)
    for field in dataclasses.fields(TransformerConfig):
        expected = PRESETS[name].get(field.name, getattr(default, field.name))
        assert getattr(preset(name), field.name) == expected
    assert preset(name, n_heads=2, dropout=0.25) == dataclasses.replace(
        preset(name), n_heads=2, dropout=0.25
    )


def test_an_unknown_preset_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"^name: expected 'base' or 'big', got 'huge'; choose"):
        preset("huge")


def test_what_follows_from_other_options():
    config = small_config(n_layers=3, dropout=0.2)
    assert (config.decoder_layers, config.dropout_inside, config.has_final_norm) == (3, 0.2, False)
    config = small_config(n_layers=3, n_decoder_layers=1, dropout=0.2, inner_dropout=0.0)
    assert (config.decoder_layers, config.dropout_inside) == (1, 0.0)
    assert small_config(norm="pre").has_final_norm
    assert not small_config(norm="pre", final_norm=False).has_final_norm
    assert small_config(final_norm=True).has_final_norm


def test_a_configuration_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        small_config().d_model = 3


def test_nothing_is_positional_that_could_be_swapped():
    with pytest.raises(TypeError, match="positional"):
        TransformerConfig(10, 10)


def test_whole_numbers_of_numpy_are_whole_numbers():
    assert small_config(d_model=np.int64(16)).d_model == 16


def test_the_papers_base_and_big_have_the_papers_size():
    """Table 3: 65 and 213 million parameters, with about 37,000 shared tokens."""
    for name, millions in (("base", 65), ("big", 213)):
        config = TransformerConfig.preset(name, source_vocab=37_000, target_vocab=37_000)
        with torch.device("meta"):
            count = Transformer(config).count_parameters()
        assert count / 1e6 == pytest.approx(millions, rel=0.04)
        d, ff, n = config.d_model, config.d_ff, config.n_layers
        norm, feed_forward = 2 * d, 2 * d * ff + ff + d
        encoder = 4 * d * d + feed_forward + 2 * norm
        decoder = 8 * d * d + feed_forward + 3 * norm
        assert count == 37_000 * d + n * (encoder + decoder)


def test_the_configuration_reaches_every_part():
    config = small_config(
        n_decoder_layers=3,
        dropout=0.2,
        inner_dropout=0.3,
        norm="pre",
        norm_eps=1e-3,
        attention_bias=False,
        max_len=9,
        activation="gelu",
    )
    model = Transformer(config)
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (2, 3)
    layer = model.decoder.layers[2]
    assert layer.self_attention.query.bias is None
    assert layer.feed_forward.expand.bias is not None
    assert layer.feed_forward.activation is F.gelu
    assert layer.cross_residual.norm.bias is not None
    assert layer.cross_residual.norm.eps == 1e-3
    assert layer.cross_residual.dropout.p == 0.2
    assert layer.feed_forward.dropout.p == 0.3
    assert layer.cross_attention.dropout == 0.3
    assert model.source_embedding.dropout.p == 0.2
    assert len(model.source_embedding.positions.table) == 9
    assert model.encoder.norm is not None


def test_a_table_of_sinusoids_fits_into_memory_and_positions_go_on_beyond_it():
    sizes = {"source_vocab": 9, "target_vocab": 9, "d_model": 512}
    with pytest.raises(ValueError, match="max_len: expected at most 131,072, got 131073; choose"):
        TransformerConfig(**sizes, max_len=131_073)
    assert TransformerConfig(**sizes, max_len=131_073, positions="learned").max_len == 131_073


def test_numbers_that_no_float_holds_are_refused_in_a_line():
    for number, shown in ((10**400, "1000"), (10**5000, "a very long int")):
        with pytest.raises(ValueError, match=rf"dropout: expected a probability .*, got {shown}"):
            TransformerConfig(source_vocab=9, target_vocab=9, dropout=number)
