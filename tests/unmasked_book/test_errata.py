"""Tests that the documents' mistakes about the model, told in `book/bugs.md`, are rejected.

Each test holds the faulty version, as a change of plain.py's text or in a few lines of our own. The
mistakes of the workshop's table and of faults.txt are tested there.
"""

import pytest
import torch

from helpers import small_model
from helpers.faults import refused, told_apart
from unmasked import plain
from unmasked.attention import masked_softmax
from unmasked.masks import causal_mask
from unmasked.positions import frequencies
from unmasked_book.workshop import examine

test_erratum_01_the_weights_are_returned_under_the_name_they_have = refused(
    "@MultiHeadAttention return self.output(heads) → return att", said="NameError"
)
test_erratum_02_the_scale_follows_the_width_of_the_heads = refused(
    "@attention math.sqrt(q.shape[-1]) → math.sqrt(64)",
    "@attention math.sqrt(q.shape[-1]) → math.sqrt(2)",
)


def test_erratum_03_the_causal_mask_is_boolean_and_made_where_it_is_used():
    refused("@causal_mask torch.bool → torch.float64", said="floating-point ones and zeros")()
    assert causal_mask(4, device="meta").device.type == "meta"


def hidden_by_a_billion(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(-1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_erratum_04_a_row_that_sees_nothing_attends_to_nothing_in_any_precision(dtype):
    def check(softmax):
        weights = softmax(torch.randn(3, 4, dtype=dtype), torch.zeros(3, 4, dtype=torch.bool))
        assert weights.eq(0).all()  # and not 1/4 each

    error = RuntimeError if dtype == torch.float16 else AssertionError
    told_apart(check, masked_softmax, hidden_by_a_billion, error=error)


test_erratum_05_the_sizes_reach_every_layer = refused(
    "EncoderLayer(*sizes) for → EncoderLayer(512, 8, 2048, 0.1) for",
    "DecoderLayer(*sizes) for _ in range(n_layers) → DecoderLayer(*sizes) for _ in range(6)",
)
test_erratum_06_dropout_is_applied_and_embeddings_are_scaled = refused(
    "@EncoderLayer self.dropout(self.feed_forward( → (self.feed_forward(",
    "* math.sqrt(embedding.embedding_dim) → ",
)


def test_erratum_07_the_decoder_needs_no_name_from_outside_and_can_be_decoded_with():
    refused(".to(target.device) → .to(device)", said="NameError")()
    model, tokens = small_model().to("meta"), torch.zeros(1, 3, dtype=torch.long, device="meta")
    assert model(tokens, tokens).device.type == "meta"


@pytest.mark.parametrize("width", [32, 512])
def test_erratum_10_neither_exp_of_log_nor_power_is_exact_in_float32(width):
    """Refutes the claim that exp(-log) is more accurate: in float32 it is less so."""
    index = torch.arange(0, width, 2)
    exact = 10000.0 ** (-index.double() / width)
    power = 10000.0 ** (-index.float() / width)
    exp_log = torch.exp(index.float() * (-torch.log(torch.tensor(10000.0)) / width))
    ways = frequencies(width), power, exp_log
    ours, by_power, by_exp_log = (((rates.double() - exact) / exact).abs().max() for rates in ways)
    assert ours < 1e-10 < by_power < by_exp_log


test_erratum_13_the_norm_is_pytorchs = refused(  # Bessel's correction, and epsilon beside the root
    "@EncoderLayer self.attention_norm(x) → (x - x.mean(-1, keepdim=True))"
    " / (x.std(-1, keepdim=True) + 1e-6) * self.attention_norm.weight"
)


def test_erratum_15_masking_leaves_the_callers_scores_alone():
    def check(softmax):
        scores = torch.randn(2, 3, 3)
        before = scores.clone()
        softmax(scores, causal_mask(3))
        assert torch.equal(scores, before)

    def faulty(scores, mask):
        scores.view(-1, 3)[~mask.repeat(2, 1)] = -1e6

    told_apart(check, masked_softmax, faulty)


def test_erratum_17_every_layer_is_registered():
    layers = "(EncoderLayer(*sizes) for _ in range(n_layers))"
    refused(f"nn.ModuleList{layers} → list{layers}", said="no parameter encoder")()
    positions = small_model().to("meta").source_embedding.positions
    assert positions.table.device.type == "meta"  # a buffer moves along


def test_erratum_18_a_decoder_is_a_module():
    verdict = examine("DecoderLayer", lambda *sizes: plain.DecoderLayer(*sizes).forward)
    assert "a class of nn.Module is asked for" in verdict.message


test_erratum_18_the_first_word_has_keys_too = refused(
    "@MultiHeadAttention (q, k, v, mask) → (q, heads, v, mask)", said="UnboundLocalError"
)
test_erratum_20_values_have_their_own_projection_and_the_output_is_the_vocabulary = refused(
    "@MultiHeadAttention self.value(y) → self.query(y)",
    "nn.Linear(d_model, target_vocab → nn.Linear(d_model, d_model",
)


def test_erratum_22_hidden_means_weight_zero_and_not_only_a_low_score():
    """Shows that minus a billion hides nothing from a row whose scores are lower still."""
    scores = torch.tensor([[-2e9, 0.0], [-2e9, -3e9]])
    mask = torch.tensor([[True, False], [True, True]])

    def check(softmax):
        assert softmax(scores, mask).tolist() == [[1.0, 0.0], [1.0, 0.0]]

    told_apart(check, masked_softmax, hidden_by_a_billion)
