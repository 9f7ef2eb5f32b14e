"""Tests that the mistakes beyond the documents', told in `book/bugs.md`, are rejected.

Each test holds the faulty version, as a change of plain.py's text or in a few lines of our own.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from helpers import difference, ragged, small_config, small_model
from helpers.faults import refused, told_apart
from unmasked import AttentionMaps, LayerConfig, Transformer
from unmasked.attention import Look, attention
from unmasked.encoder import EncoderLayer
from unmasked.evaluation import bleu
from unmasked.loss import smoothed_cross_entropy
from unmasked.masks import causal_mask
from unmasked.text.phrasebook import sentence_pairs
from unmasked.text.sources import phrasebook_data
from unmasked.tokens import Words


def test_bug_02_each_function_gets_the_mask_in_its_own_words():
    x, causal = torch.randn(1, 4, 8), causal_mask(4)
    later = x + torch.tensor([0, 0, 0, 1])[:, None]  # another last word
    multihead = nn.MultiheadAttention(8, 2, batch_first=True)

    def check(attend):
        moved = (attend(x) - attend(later)).abs()
        assert moved[:, :-1].max() < 1e-6
        assert moved[:, -1].max() > 1e-3

    check(lambda x: attention(x, x, x, causal))
    theirs, faulty = (lambda x, m=m: multihead(x, x, x, attn_mask=m)[0] for m in (~causal, causal))
    told_apart(check, theirs, faulty)


def test_bug_03_the_maps_are_those_of_the_model_that_ran():
    model, source, maps = small_model(), ragged([6, 3]), AttentionMaps.empty()

    def check(ran):
        memory, maps = ran
        assert difference(memory[1, :3], model.encode(source)[1, :3]) < 1e-12
        assert all(layer[1, :, :, 3:].eq(0).all() for layer in maps)

    x, again = model.source_embedding(source), []
    for layer in model.encoder.layers:
        x = layer(x, mask=Look(maps=again))  # and the mask?
    told_apart(check, (model.encode(source, maps=maps), maps.encoder), (x, again))


def test_bug_04_a_sentence_does_not_depend_on_its_neighbours():
    def check(module):
        x = torch.randn(3, 5, 8)
        moved = (module(x) - module(x + torch.tensor([0, 1, 0])[:, None, None])).abs()
        assert moved[0].max() < 1e-6
        assert moved[1].max() > 1e-3

    check(EncoderLayer(LayerConfig(d_model=8, n_heads=2, dropout=0.0)))
    theirs = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
    told_apart(check, theirs, nn.TransformerEncoderLayer(8, 2, 16, 0.0))  # positions come first


def test_bug_06_the_activation_that_was_asked_for_is_computed():
    def check(model):
        for layer in model.decoder.layers:
            activation = getattr(layer, "feed_forward", layer).activation
            assert activation(torch.tensor(-1.0)) == pytest.approx(-0.1587, abs=1e-4)

    theirs, faulty = (  # a module is lost when the decoder copies its layers
        nn.Transformer(8, 2, 1, 2, 16, activation=each, batch_first=True)
        for each in ("gelu", nn.GELU())
    )
    check(Transformer(small_config(activation="gelu")))
    told_apart(check, theirs, faulty)


def test_bug_09_smoothed_labels_give_a_number_for_each_label():
    logits = torch.tensor([[0.0, 1.0, 2.0, 0.5], [0.0, 300.0, 1.0, -2.0]])
    labels = torch.tensor([2, 1])
    aim = torch.full((2, 4), 0.1 / 2).scatter(1, labels[:, None], 0.9)
    aim[:, 0] = 0.0  # padding is never said

    def check(loss):
        assert difference(loss, F.cross_entropy(logits, labels, label_smoothing=0.1)) < 1e-5

    log_of_zero = (aim * (aim.log() - logits.log_softmax(-1))).sum() / 2
    log_of_the_softmax = F.kl_div(logits.softmax(-1).log(), aim, reduction="batchmean")
    ours = smoothed_cross_entropy(logits, labels, 0.1).mean()
    told_apart(check, ours, log_of_zero, log_of_the_softmax)


def test_bug_13_bleu_counts_words():
    written, reference = "dogs sleeps unders tables", "dog sleep under table"  # no word is right

    def check(score):
        assert score([reference], [reference]).score == pytest.approx(100)
        assert score([written], [reference]).score == 0

    told_apart(check, bleu, lambda *texts: bleu(*([" ".join(text[0])] for text in texts)))


def test_bug_14_a_word_of_the_test_set_alone_is_unknown():
    training, tests = sentence_pairs(200, seed=0), sentence_pairs(200, seed=1, held_out=True)
    seen = {word for pair in training for word in pair.german.split()}
    unseen = [pair for pair in tests if set(pair.german.split()) - seen]
    assert unseen

    def check(vocabulary):
        assert [pair for pair in tests if not vocabulary.knows(pair.german)] == unseen

    faulty = Words.of(pair.german for pair in [*training, *tests])
    told_apart(check, phrasebook_data(200).source, faulty)


ADDED = "positions(tokens.shape[1], embedding.embedding_dim)"
test_bug_18_a_sentence_has_the_same_positions_in_every_row = refused(
    f"{ADDED} → positions(len(tokens), x.shape[2])[:, None]", f"x + {ADDED}.to(x) → x"
)
test_bug_19_the_logits_of_a_fresh_model_are_small = refused(
    "std=d_model**-0.5 → std=1.0", said="_embedding begins with"
)
