"""Tests that costs are what PyTorch counts."""

import pytest

from helpers import operations, ragged, small_config
from unmasked import Transformer, TransformerConfig, attention
from unmasked.loss import translation_loss
from unmasked_book import costs

CONVOLUTIONS = small_config("pytorch_walkthrough")
UNEVEN = small_config(n_layers=3, n_decoder_layers=1, target_vocab=31, output_bias=True)
EACH = pytest.mark.parametrize("config", [CONVOLUTIONS, UNEVEN])


@EACH
def test_a_forward_pass_is_what_pytorch_counts(config):
    model, source, target = Transformer(config).eval(), ragged([7, 7, 7]), ragged([5, 5, 5])
    expected = operations(lambda: model(source, target, need_weights=True))
    assert 2 * sum(costs.multiply_adds(config, 7, 5, 3).values()) == expected


@EACH
def test_a_training_step_is_what_pytorch_counts(config, monkeypatch):
    def explicit(query, key, value, mask, _, scale):
        scores = attention.scaled_scores(query, key, scale)
        return attention.masked_softmax(scores, mask) @ value

    monkeypatch.setattr(attention, "fused_attention", explicit)
    model, source, target = Transformer(config), ragged([7, 7, 7]), ragged([6, 6, 6])
    expected = operations(lambda: translation_loss(model, source, target).backward())
    assert costs.training_operations(config, 7, 5, 3) == expected


def test_each_part_is_named_and_only_one_knows_how_long_a_row_is():
    once, twice = (costs.multiply_adds(small_config(), n, n, 12 // n) for n in (3, 6))
    assert twice == {**once, "scores, means": 2 * once["scores, means"]}


def test_the_longer_the_rows_the_more_is_attention():
    config = TransformerConfig.preset("base", source_vocab=37000, target_vocab=37000)
    n, matrices, attentions = 1000, 63_000_000, config.n_layers + 2 * config.decoder_layers
    rule = 6 * matrices * n + 12 * attentions * n * config.d_model * n
    assert costs.training_operations(config, n, n) == pytest.approx(rule, rel=0.002)
    whole = 100_000 * costs.training_operations(config, 25, 25, rows=1000)  # 25,000 tokens each
    assert whole < 3.3e18 / 3  # the paper's estimate, from time and hardware
