"""Mistakes that Transformer code has beyond the five documents', each as a test that catches it.

As in test_errata.py every test holds a check, our version, which must pass it, and the faulty
version in a few lines of our own, which must not. Chapter 15 shows the symptoms.
"""

from copy import deepcopy

import pytest
import torch
from test_errata import caught
from torch import nn
from torch.nn import functional as F

from helpers import VOCABULARY, copier, difference, ragged, small_config, small_model
from unmasked import AttentionMaps, LayerConfig, Transformer
from unmasked.attention import MultiHeadAttention, attention
from unmasked.encoder import EncoderLayer
from unmasked.evaluation import bleu
from unmasked.loss import smoothed_cross_entropy, teacher_forcing, translation_loss
from unmasked.masks import causal_mask, padding_mask
from unmasked.positions import SinusoidalPositions, sinusoids
from unmasked.search import greedy
from unmasked.text.phrasebook import sentence_pairs
from unmasked.text.sources import phrasebook_data
from unmasked.tokens import Words


def test_bug_01_no_output_sees_a_later_word():
    model, source, target = small_model(), ragged([5]), ragged([6])

    def check(forward):
        before = forward(target)
        for place in range(1, 6):
            changed = target.clone()
            changed[0, place] = 3 + (changed[0, place] - 2) % (VOCABULARY - 3)
            moved = (forward(changed) - before).abs().amax(-1)[0]
            assert moved[:place].max() < 1e-12
            assert moved[place:].min() > 1e-6

    def faulty(tokens):
        return model(source, tokens, target_mask=padding_mask(tokens))

    check(lambda tokens: model(source, tokens))
    caught(check, faulty)


def test_bug_02_each_function_gets_the_mask_in_its_own_words():
    x, causal = torch.randn(1, 4, 8), causal_mask(4)
    multihead = nn.MultiheadAttention(8, 2, batch_first=True)

    def check(attend):
        later = x.clone()
        later[:, -1] += 1
        assert difference(attend(x)[:, :-1], attend(later)[:, :-1]) < 1e-6
        assert (attend(x) - attend(later))[:, -1].abs().max() > 1e-3

    def fused(mask):
        return lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    def module(mask):
        return lambda x: multihead(x, x, x, attn_mask=mask)[0]

    check(lambda x: attention(x, x, x, causal))
    check(fused(causal))
    check(module(~causal))
    caught(check, fused(~causal))
    caught(check, module(causal))


def test_bug_03_the_maps_are_those_of_the_model_that_ran():
    model, source = small_model(), ragged([6, 3])
    padding = source == 0

    def check(maps_of):
        memory, maps = maps_of(source)
        assert difference(memory[~padding], model.encode(source)[~padding]) < 1e-12
        assert len(maps) == len(model.encoder.layers)
        for layer in maps:
            assert layer[1, :, :, 3:].eq(0).all()

    def ours(tokens):
        maps = AttentionMaps.empty()
        return model.encode(tokens, maps=maps), maps.encoder

    def faulty(tokens):
        x, maps = model.source_embedding(tokens), []
        for layer in model.encoder.layers:
            x = layer(x, maps=maps)  # and the mask?
        return x, maps

    check(ours)
    caught(check, faulty)


def test_bug_04_a_sentence_does_not_depend_on_its_neighbours():
    def check(module):
        x = torch.randn(3, 5, 8)
        other = x.clone()
        other[1] += 1
        assert difference(module(x)[0], module(other)[0]) < 1e-6
        assert difference(module(x)[1], module(other)[1]) > 1e-3

    check(EncoderLayer(LayerConfig(d_model=8, n_heads=2, dropout=0.0)))
    check(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True))
    caught(check, nn.TransformerEncoderLayer(8, 2, 16, 0.0))  # positions first is the default


def test_bug_05_tied_matrices_stay_the_same_when_one_is_trained():
    def check(model):
        table, last = model.target_embedding.tokens.weight, model.generator.weight
        assert torch.equal(table, last)
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        translation_loss(model, ragged([4]), ragged([5])).backward()
        optimizer.step()
        assert torch.equal(table, last)

    faulty = small_model()
    with torch.no_grad():
        faulty.generator.weight.copy_(faulty.target_embedding.tokens.weight)
    check(small_model(tie_embeddings="output"))
    caught(check, faulty)


def test_bug_06_the_activation_that_was_asked_for_is_computed():
    def check(activations):
        for activation in activations:
            assert activation(torch.tensor(-1.0)) == pytest.approx(-0.1587, abs=1e-4)

    def theirs(activation):
        model = nn.Transformer(8, 2, 1, 2, 16, activation=activation, batch_first=True)
        return [layer.activation for layer in model.decoder.layers]

    ours = Transformer(small_config(activation="gelu"))
    check([layer.feed_forward.activation for layer in ours.decoder.layers])
    check(theirs("gelu"))
    caught(check, theirs(nn.GELU()))  # the module is lost when the decoder copies its layers


def test_bug_07_a_model_that_repeats_what_it_reads_has_a_high_loss():
    def check(split):
        inputs, labels = split(torch.tensor([[1, 5, 7, 4, 2]]))
        repeats = 20.0 * F.one_hot(inputs, 10)
        assert F.cross_entropy(repeats.mT, labels) > 10

    check(teacher_forcing)
    caught(check, lambda target: (target, target))


def test_bug_08_padding_does_not_change_the_loss():
    model, source = small_model(), ragged([4, 3])
    target = ragged([5, 3])

    def check(loss):
        assert difference(loss(target), loss(F.pad(target, (0, 5)))) < 1e-12

    def each(target):
        inputs, labels = teacher_forcing(target)
        logits = model(source, inputs)
        return F.cross_entropy(logits.mT, labels, reduction="none", ignore_index=0), labels

    def over_all_places(target):
        losses, labels = each(target)
        return losses.sum() / labels.numel()

    def padding_as_a_word(target):
        inputs, labels = teacher_forcing(target)
        return F.cross_entropy(model(source, inputs).mT, labels)

    check(lambda target: translation_loss(model, source, target))
    check(lambda target: each(target)[0].sum() / (target[:, 1:] != 0).sum())
    caught(check, over_all_places)
    caught(check, padding_as_a_word)


def test_bug_09_smoothed_labels_give_a_number_for_each_label():
    logits = torch.tensor([[0.0, 1.0, 2.0, 0.5], [0.0, 300.0, 1.0, -2.0], [1.0, 0.0, 0.0, 3.0]])
    labels = torch.tensor([2, 1, 0])  # the last one is padding
    real = labels != 0

    def check(loss):
        expected = F.cross_entropy(logits[real], labels[real], label_smoothing=0.1)
        assert difference(loss(logits, labels), expected) < 1e-5

    def aims():  # the padding's column and row are zero
        aim = torch.full((3, 4), 0.1 / 2).scatter(1, labels[:, None], 0.9)
        return aim.masked_fill(torch.arange(4) == 0, 0.0) * real[:, None]

    def log_of_zero(logits, _):
        aim = aims()
        return (aim * (aim.log() - logits.log_softmax(-1))).sum() / real.sum()

    def log_of_the_softmax(logits, _):
        return F.kl_div(logits.softmax(-1).log(), aims(), reduction="sum") / real.sum()

    def mean_over_everything(logits, _):
        return F.kl_div(logits.log_softmax(-1), aims())

    def padding_counted(logits, labels):
        return F.cross_entropy(logits, labels, label_smoothing=0.1)

    check(lambda logits, labels: smoothed_cross_entropy(logits[real], labels[real], 0.1).mean())
    assert log_of_zero(logits, labels).isnan()
    assert not log_of_the_softmax(logits, labels).isfinite()
    caught(check, log_of_zero)
    caught(check, log_of_the_softmax)
    with pytest.warns(UserWarning, match="batchmean"):
        caught(check, mean_over_everything)
    caught(check, padding_counted)


def test_bug_10_a_batch_in_parts_has_the_gradient_of_the_whole():
    model = small_model()
    source, target = ragged([4, 5, 3, 6]), ragged([7, 3, 6, 3])
    parts = [(source[i : i + 1], target[i : i + 1]) for i in range(4)]

    def gradient(losses):
        model.zero_grad()
        for loss in losses:
            loss.backward()
        return model.generator.weight.grad.clone()

    def check(losses):
        whole = gradient([translation_loss(model, source, target)])
        assert difference(gradient(losses), whole) < 1e-12

    total = int((target[:, 1:] != 0).sum())
    means = [lambda part=part: translation_loss(model, *part) for part in parts]
    check(translation_loss(model, *part, total=total) for part in parts)
    caught(check, [mean() for mean in means])  # never divided: nearly four times too large
    caught(check, [mean() / 4 for mean in means])  # a short part counts as much as a long one


def test_bug_11_nothing_is_dropped_while_a_model_writes():
    source = ragged([5, 4], 12)
    model = copier()
    dropout = model.source_embedding.dropout

    def check(write):
        model.train()
        dropout.p = 0.5
        try:
            first = write(source)
            assert all(torch.equal(write(source), first) for _ in range(5))
        finally:
            dropout.p = 0.0
            model.eval()

    def faulty(source):
        text = torch.ones(len(source), 1, dtype=torch.long)
        for _ in range(6):
            text = torch.cat([text, model(source, text)[:, -1:].argmax(-1)], dim=1)
        return text

    check(lambda source: greedy(model, source, 6))
    caught(check, faulty)


def test_bug_12_a_translation_is_written_without_its_reference():
    model, source = copier(), ragged([5], 12)

    def check(write):
        first, *others = (write(ragged([length], 12)) for length in (6, 6, 6, 3))
        assert all(torch.equal(first, other) for other in others)

    def faulty(reference):
        return model(source, reference).argmax(-1)

    check(lambda _: greedy(model, source, 6))
    caught(check, faulty)


def test_bug_13_bleu_counts_words():
    """Each word has a letter too many, and so none is right."""
    written, reference = "dogs sleeps unders tables", "dog sleep under table"

    def check(score):
        assert score(reference, reference).score == pytest.approx(100)
        assert score(written, reference).score == 0

    def faulty(written, reference):
        return bleu([" ".join(written)], [" ".join(reference)])

    check(lambda written, reference: bleu([written], [reference]))
    caught(check, faulty)


def test_bug_14_a_word_of_the_test_set_alone_is_unknown():
    training, tests = sentence_pairs(200, seed=0), sentence_pairs(200, seed=1, held_out=True)
    seen = {word for pair in training for word in pair.german.split()}

    def check(vocabulary):
        unknown = [pair for pair in tests if not vocabulary.knows(pair.german)]
        assert unknown == [pair for pair in tests if set(pair.german.split()) - seen]
        assert unknown

    check(phrasebook_data(200).source)
    check(Words.of(pair.german for pair in training))
    caught(check, Words.of(pair.german for pair in [*training, *tests]))


def test_bug_15_each_step_moves_every_parameter_by_the_gradient_of_its_own_batch():
    def trained(model, optimizer, clear):
        """By how much the second step's gradients are off, and how far each parameter moves."""
        before = [parameter.detach().clone() for parameter in model.parameters()]
        for lengths in ([5, 3], [2, 4]):
            source, target = ragged(lengths), ragged(lengths)
            if clear:
                model.zero_grad()
            translation_loss(model, source, target).backward()
            wanted = torch.autograd.grad(
                translation_loss(model, source, target), [*model.parameters()]
            )
            pairs = zip(model.parameters(), wanted, strict=True)
            off = [difference(parameter.grad, alone) for parameter, alone in pairs]
            optimizer.step()
        pairs = zip(model.parameters(), before, strict=True)
        return off, [difference(now, then) for now, then in pairs]

    def check(own, clear=True):
        model = small_model()
        updated = model if own else deepcopy(model)
        off, moved = trained(model, torch.optim.Adam(updated.parameters(), 1e-3), clear)
        assert max(off) < 1e-12
        assert min(moved) > 0

    check(True)
    caught(check, False)
    caught(lambda own: check(own, clear=False), True)


def test_bug_16_heads_are_put_together_position_by_position():
    heads, x = MultiHeadAttention(12, 3).double(), torch.randn(2, 5, 12).double()
    later = x.clone()
    later[:, -1] += 1

    def attended(x, merge):
        parts = (heads.query, heads.key, heads.value)
        return merge(attention(*(heads.split(part(x)) for part in parts), causal_mask(5)))

    def check(merge):
        moved = (attended(later, merge) - attended(x, merge)).abs().amax((0, 2))
        assert moved[:-1].max() < 1e-12
        assert moved[-1] > 1e-3

    check(heads.merge)
    caught(check, lambda x: x.reshape(2, 5, 12))


def test_bug_17_the_loss_of_a_sure_and_right_answer_is_nothing():
    labels = torch.tensor([[4, 7, 1]])
    sure = 100 * F.one_hot(labels, VOCABULARY).float()

    def check(loss):
        assert loss(sure, labels) < 1e-6

    check(lambda logits, labels: F.cross_entropy(logits.mT, labels))
    check(lambda logits, labels: smoothed_cross_entropy(logits[0], labels[0], 0.0).mean())
    caught(check, lambda logits, labels: F.cross_entropy(logits.softmax(-1).mT, labels))


def test_bug_18_a_sentence_has_the_same_positions_in_every_row():
    table = sinusoids(0, 50, 16)[:, None].float()  # [length, 1, d]
    x = torch.zeros(3, 5, 16)

    def check(add):
        placed = add(x)
        assert torch.equal(placed[0], placed[-1])
        assert (placed[:, 1:] - placed[:, :-1]).abs().amax(-1).min() > 0.1

    check(SinusoidalPositions(16))
    check(lambda x: x + table[: x.size(1)].transpose(0, 1))
    caught(check, lambda x: x + table[: x.size(0)])
    caught(check, lambda x: x)
