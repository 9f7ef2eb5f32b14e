"""What is counted is what PyTorch counts; what is timed and drawn is what is said."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from helpers import ragged, small_config
from unmasked import Transformer, TransformerConfig, attention
from unmasked.loss import teacher_forcing, translation_loss
from unmasked.training.recipe import Recipe
from unmasked_book import machines

CPU = torch.device("cpu")

# --- Counted ----------------------------------------------------------------------------------

CONFIGS = {
    "convolutions": small_config("pytorch_walkthrough"),
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
    assert 2 * sum(machines.multiply_adds(config, 7, 5, 3).values()) == expected


@pytest.mark.parametrize("name", CONFIGS)
def test_a_training_step_is_what_pytorch_counts(name, monkeypatch):
    """Also in the backward pass; without padding, as many logits as words."""

    def explicit(query, key, value, mask, _, scale):
        scores = attention.scaled_scores(query, key, scale)
        return attention.masked_softmax(scores, mask) @ value

    monkeypatch.setattr(attention, "fused_attention", explicit)
    model, source, target = Transformer(CONFIGS[name]), ragged([7, 7, 7]), ragged([6, 6, 6])
    expected = operations(lambda: translation_loss(model, source, target).backward())
    assert machines.training_operations(CONFIGS[name], 7, 5, 3) == expected


def test_each_part_is_named_and_only_one_knows_how_long_a_row_is():
    once, twice = (machines.multiply_adds(small_config(), n, n, 12 // n) for n in (3, 6))
    assert twice == {**once, "scores, means": 2 * once["scores, means"]}


def test_the_longer_the_rows_the_more_is_attention():
    config = TransformerConfig.preset("base", source_vocab=37000, target_vocab=37000)
    n, matrices = 1000, 63_000_000
    attentions = config.n_layers + 2 * config.decoder_layers
    rule = 6 * matrices * n + 12 * attentions * n * config.d_model * n
    assert machines.training_operations(config, n, n) == pytest.approx(rule, rel=0.002)
    whole = 100_000 * machines.training_operations(
        config, 25, 25, rows=1000
    )  # batches of 25,000 tokens
    assert whole < 3.3e18 / 3  # the paper's estimate, from time and hardware


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_what_a_step_keeps_is_counted_to_a_few_per_cent(norm):
    sizes = {"d_model": 128, "n_heads": 4, "d_ff": 512, "n_layers": 2, "dropout": 0.0}
    config = TransformerConfig(source_vocab=500, target_vocab=700, norm=norm, **sizes)
    model, source, target = Transformer(config), ragged([24] * 16), ragged([21] * 16)

    def loss():
        inputs, labels = teacher_forcing(target)
        return F.cross_entropy(model(source, inputs).flatten(0, 1), labels.flatten())

    counted = machines.kept_numbers(config, 24, 20, 16)
    kept = machines.kept_bytes(loss, model.parameters())
    assert kept == pytest.approx(4 * sum(counted.values()), rel=0.02)


# --- Floating-point formats -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_formats_and_rounding_are_pytorchs(name):
    dtype, ours = getattr(torch, name), machines.FORMATS[name]
    known = torch.finfo(dtype)
    found = ours.step, ours.largest, ours.smallest, 1 + ours.exponent + ours.fraction
    assert found == (known.eps, known.max, known.smallest_normal, known.bits)
    ordinary = torch.randn(1000) * 2.0 ** torch.randint(-4, 13, (1000,))
    ordinary = ordinary[ordinary.abs() > 1e-4]  # below, float16 gives up its leading 1
    ties = 1 + torch.arange(8.0) / 2**11
    x = torch.cat([ordinary, ties, -ties, torch.tensor([0.0, 1.0])])
    assert torch.equal(machines.rounded(x, ours.fraction), x.to(dtype).float())


# --- Timed and looked into --------------------------------------------------------------------


def test_a_training_step_trains_without_padding_in_its_count():
    config = small_config(dropout=0.0)
    run = machines.training_step(config, [5, 3, 1], Recipe(rate=0.01, warmup=1), CPU)
    losses = [float(run()[0]) for _ in range(10)]
    assert losses[-1] < losses[0]
    assert run.func.__self__.corpus.labels() == 9  # as many as words
