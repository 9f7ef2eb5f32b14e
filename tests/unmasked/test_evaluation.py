"""Scores with known answers, BLEU as sacreBLEU has it, and maps that belong to the right words."""

import math
from unittest.mock import Mock

import pytest
import torch
from sacrebleu.metrics import BLEU, CHRF

from helpers import difference, small_config
from helpers.refusals import refusals
from unmasked import Transformer, evaluation
from unmasked.evaluation import (
    Correct,
    alignment_agreement,
    bleu,
    chrf,
    cross_maps,
    exact,
    mean_cross_entropy,
    paired_bootstrap,
)
from unmasked.text.phrasebook import Pair
from unmasked.tokens import BOS, Words
from unmasked.translator import Translator

PAIRS = [
    Pair("a b", "A B", frozenset({(0, 0), (1, 1)}), "statement"),
    Pair("b a c", "B A", frozenset({(0, 1), (2, 1), (1, 0)}), "question"),
    Pair("c", "C D E", frozenset({(0, 1)}), "statement"),
    Pair("b", "B", frozenset(), "statement"),
]


def translator():
    words = [Words.of([" ".join(p[side] for p in PAIRS)]) for side in (0, 1)]
    config = small_config(source_vocab=len(words[0]), target_vocab=len(words[1]), n_heads=2)
    return Translator(Transformer(config).double(), *words)


def test_exact_counts_whole_sentences_of_each_construction_and_of_all():
    says = Mock(translate=Mock(return_value=["A B", "B A C", "C D E", "b"]))
    found = exact(says, PAIRS, 3)
    assert found == {"question": Correct(0, 1), "statement": Correct(2, 3), "all": Correct(2, 4)}
    assert says.translate.call_args.args == (["a b", "b a c", "c", "b"],)
    assert says.translate.call_args.kwargs["beam_size"] == 3
    assert str(found["statement"]) == "2 of 3, 66.7%"
    assert math.isnan(Correct(0, 0).share)


@pytest.mark.parametrize("tokens", [6, 4096])
def test_the_cross_entropy_is_the_mean_of_every_word_that_is_asked_for(tokens):
    """By hand: a sentence alone, without padding, word by word; however they are put together."""
    made = translator()
    corpus = made.corpus([(pair.german, pair.english) for pair in PAIRS])
    model, surprise = made.model.train(), []
    found = mean_cross_entropy(model, corpus, tokens)
    assert model.training
    model.eval()
    for source, target in corpus.pairs:
        said = model(torch.tensor([source]), torch.tensor([target[:-1]]))[0].log_softmax(-1)
        surprise += [-said[i, word].item() for i, word in enumerate(target[1:])]
    assert len(surprise) == corpus.labels() == 12
    assert found == pytest.approx(sum(surprise) / 12, abs=1e-12)


# --- BLEU and chrF ------------------------------------------------------------------------------

WRITTEN = ["a dog runs across the meadow .", "two women drink tea in a garden"]
WANTED = ["a dog runs over the green meadow .", "two women drink tea in a small garden"]
BETTER = [WANTED[0], WRITTEN[1]]


@pytest.mark.parametrize(
    ("ours", "theirs", "part"), [(bleu, BLEU, "tok:13a"), (chrf, CHRF, "nc:6")]
)
def test_the_scores_are_sacrebleus_and_say_how_they_were_made(ours, theirs, part):
    found = ours(WRITTEN, WANTED)
    assert found.score == theirs(lowercase=True).corpus_score(WRITTEN, [WANTED]).score
    assert str(found) == f"{found.score:.2f}"
    assert ours([text.upper() for text in WANTED], WANTED).score == pytest.approx(100)
    for piece in ("nrefs:1", "case:lc", "version:", part):
        assert piece in found.signature
    many = ours(WRITTEN * 20, WANTED * 20, draws=200)
    assert 0 < many.interval < ours(WRITTEN * 2, WANTED * 2, draws=200).interval


def test_a_clear_difference_is_not_chance_and_an_unclear_one_may_be():
    texts = WRITTEN * 20, BETTER * 20, WANTED * 20
    clear = paired_bootstrap(*texts, draws=300)
    gain = bleu(*texts[1:]).score - bleu(texts[0], texts[2]).score
    assert clear.difference == pytest.approx(gain)
    assert clear.p < 0.01
    assert clear == paired_bootstrap(*texts, draws=300)
    mixed = [*BETTER, WRITTEN[0], "two women drink"], [*WRITTEN, BETTER[0], WRITTEN[1]]
    assert paired_bootstrap(*mixed, WANTED * 2, draws=300).p > 0.05


test_what_cannot_be_scored_is_refused = refusals(
    (lambda: bleu([], []), "written: expected as many translations as references, got 0 and 0"),
    (lambda: bleu(WRITTEN, WANTED[:1]), "written: .* got 2 and 1"),
    (lambda: paired_bootstrap(WRITTEN, BETTER[:1], WANTED), "written"),
)


# --- Maps -------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 3, 128])
def test_rows_belong_to_the_query_that_has_to_say_the_word(monkeypatch, batch):
    """Row t is the last row of what the model computes when it has read only the words before."""
    made = translator()
    made.model.train()
    monkeypatch.setattr(evaluation, "BATCH", batch)
    found = list(cross_maps(made, PAIRS))
    assert made.model.training
    made.model.eval()
    for pair, maps in zip(PAIRS, found, strict=True):
        words = made.target.encode(pair.english)
        assert maps.shape == (2, 2, len(words) + 1, len(pair.german.split()) + 1)
        assert difference(maps.sum(-1), torch.ones_like(maps.sum(-1))) < 1e-12
        for row in range(len(words) + 1):
            before = torch.tensor([[BOS, *words[:row]]])
            _, alone = made.model(made.tokens([pair.german]), before, need_weights=True)
            assert difference(maps[:, :, row], torch.stack(alone.cross)[:, 0, :, -1]) < 1e-12


def test_agreement_counts_aligned_words_whose_strongest_source_word_is_one_of_theirs(monkeypatch):
    looks = [  # at which source word each target word, and the end, looks
        [0, 0, 2],  # A right, B wrong
        [1, 2, 3],  # B right, A right: the second of its two
        [1, 0, 0, 0],  # D right; C and E have no alignment
        [1, 1],
    ]
    maps = []
    for row in looks:
        clear = 0.05 + 0.8 * torch.nn.functional.one_hot(torch.tensor(row), 4).double()
        other = torch.full_like(clear, 0.25)
        maps.append(torch.stack([torch.stack([other, other.roll(1)]), torch.stack([other, clear])]))
        maps[-1][0, :, :, 3] += 0.1  # the first layer looks at the last place
    monkeypatch.setattr(evaluation, "cross_maps", lambda *_: iter(maps))
    found = [alignment_agreement(translator(), PAIRS, layer) for layer in (1, 0, -2, -1)]
    assert found == [Correct(4, 5), Correct(0, 5), Correct(0, 5), Correct(4, 5)]
