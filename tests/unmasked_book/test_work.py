"""What is counted is what PyTorch counts, and what the rules of thumb say."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from helpers import ragged, small_config
from unmasked import PRESETS, Transformer, TransformerConfig, attention
from unmasked.loss import translation_loss
from unmasked_book.machines import (
    attainable,
    exponent,
    multiply_adds,
    peak,
    product_bytes,
    product_operations,
    share_of_peak,
    speeds,
    training_bytes,
    training_operations,
)

CONFIGS = {
    **{name: small_config(name) for name in PRESETS},
    "uneven": small_config(n_layers=3, n_decoder_layers=1, target_vocab=31, output_bias=True),
}


def operations(run):
    """PyTorch's own count; attention must write its weights, or the count leaves it out."""
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_forward_pass_is_what_pytorch_counts(name):
    config = CONFIGS[name]
    model, source, target = Transformer(config).eval(), ragged([7, 7, 7]), ragged([5, 5, 5])
    expected = operations(lambda: model(source, target, need_weights=True))
    assert 2 * sum(multiply_adds(config, 7, 5, 3).values()) == expected


@pytest.mark.parametrize("name", CONFIGS)
def test_a_training_step_is_what_pytorch_counts(name, monkeypatch):
    """Also in the backward pass; without padding, as many logits as words."""
    config = CONFIGS[name]
    monkeypatch.setattr(attention, "fused_attention", explicit)
    model, source, target = Transformer(config), ragged([7, 7, 7]), ragged([6, 6, 6])
    expected = operations(lambda: translation_loss(model, source, target).backward())
    assert training_operations(config, 7, 5, 3) == expected


def explicit(query, key, value, mask, _, scale):
    scores = attention.scaled_scores(query, key, scale)
    return attention.masked_softmax(scores, mask) @ value


def test_each_part_is_named_and_only_one_knows_how_long_a_row_is():
    config = small_config()
    once, twice = (multiply_adds(config, n, n, 12 // n) for n in (3, 6))
    assert twice["scores, means"] == 2 * once["scores, means"]
    assert all(twice[part] == once[part] for part in once if part != "scores, means")


def test_without_attention_each_number_of_a_matrix_is_used_once_a_word():
    config = TransformerConfig.preset("base", source_vocab=37000, target_vocab=37000)
    with torch.device("meta"):
        model = Transformer(config)
    matrices = sum(p.numel() for p in model.parameters() if p.dim() == 2)
    parts = multiply_adds(config, 1, 1)
    assert sum(parts.values()) - parts["scores, means"] == matrices


def test_the_longer_the_rows_the_more_is_attention():
    config = TransformerConfig.preset("base", source_vocab=37000, target_vocab=37000)
    n, matrices = 1000, 63_000_000
    attentions = config.n_layers + 2 * config.decoder_layers
    rule = 6 * matrices * n + 12 * attentions * n * config.d_model * n
    assert training_operations(config, n, n) == pytest.approx(rule, rel=0.002)
    whole = 100_000 * training_operations(config, 25, 25, rows=1000)  # batches of 25,000 tokens
    assert whole < 3.3e18 / 3  # the paper's estimate, from time and hardware


@pytest.mark.parametrize("name", ["source", "target", "rows"])
def test_sizes_of_nothing_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}: expected a whole number of at least 1"):
        multiply_adds(small_config(), **{"source": 1, "target": 1, "rows": 1, name: 0})


def test_a_product_by_hand():
    assert product_operations(2, 3, 4) == 48
    assert product_bytes(2, 3, 4) == 104
    assert product_bytes(2, 3, 4, width=2) == 52


def test_the_lower_of_the_two_limits_holds():
    assert attainable(0.5, peak=100, bandwidth=20) == 10
    assert attainable(50, peak=100, bandwidth=20) == 100


def test_what_training_holds():
    assert training_bytes(10) == {"weights": 40, "gradients": 40, "Adam": 80}
    assert training_bytes(10, 4) == training_bytes(10)
    assert training_bytes(10, 4, sharded=True) == training_bytes(3)


def test_what_was_measured_in_operations_a_second():
    found = {"float32": {"sizes": [2, 4], "seconds": [1.0, 4.0]}}
    assert speeds(found["float32"]) == [16, 32]
    assert peak(found, "float32") == 32
    config = small_config()
    assert share_of_peak(config, 3, 5, 2.0, 1e6) == training_operations(config, 5, 5, 3) / 2e6


def test_the_exponent_of_a_power_is_found():
    assert exponent([1, 2, 4], [3, 3 * 2**1.5, 3 * 4**1.5]) == pytest.approx(1.5)
