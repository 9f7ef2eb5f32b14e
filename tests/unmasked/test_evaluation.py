"""Scores with known answers, BLEU as sacreBLEU has it, and maps that belong to the right words."""

import math
import random
import sys

import numpy as np
import pytest
import torch
from sacrebleu.metrics import BLEU, CHRF

from helpers import difference, small_config
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
    with_known_words,
)
from unmasked.text.phrasebook import Pair, sentence_pairs
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


class Says:
    """Translates from a list, and keeps what it was asked."""

    def __init__(self, *texts):
        self.texts = dict(zip([pair.german for pair in PAIRS], texts, strict=True))

    def translate(self, sentences, **options):
        self.options = options
        return [self.texts[sentence] for sentence in sentences]


def test_exact_counts_whole_sentences_of_each_construction_and_of_all():
    says = Says("A B", "B A C", "C D E", "b")
    assert exact(says, PAIRS, 3) == {
        "question": Correct(0, 1),
        "statement": Correct(2, 3),
        "all": Correct(2, 4),
    }
    assert says.options == {"beam_size": 3, "length_penalty": None, "progress": False}
    made = exact(says, PAIRS, length_penalty=1.0, progress=True)
    assert list(made) == ["question", "statement", "all"]
    assert says.options == {"beam_size": 1, "progress": True}


def test_a_score_is_a_count_and_a_share():
    assert str(Correct(2, 3)) == "2 of 3, 66.7%"
    assert Correct(3, 4).share == 0.75
    assert math.isnan(Correct(0, 0).share)
    assert str(Correct(0, 0)) == "0 of 0, nan%"


def test_pairs_with_an_unknown_word_on_either_side_are_found():
    strange = [Pair("a z", "A", frozenset(), "x"), Pair("a", "A Z", frozenset(), "x")]
    assert with_known_words(translator(), [strange[0], *PAIRS, strange[1]]) == PAIRS


@pytest.mark.parametrize("tokens", [6, 4096])
def test_the_cross_entropy_is_the_mean_of_every_word_that_is_asked_for(tokens):
    """By hand: a sentence alone, without padding, word by word; however they are put together."""
    made = translator()
    corpus = made.corpus([(pair.german, pair.english) for pair in PAIRS])
    model, surprise = made.model.train(), []
    found = mean_cross_entropy(model, corpus, tokens)
    assert model.training
    model.eval()
    for source, target in zip(corpus.source, corpus.target, strict=True):
        said = model(torch.tensor([source]), torch.tensor([target[:-1]]))[0].log_softmax(-1)
        surprise += [-said[i, word].item() for i, word in enumerate(target[1:])]
    assert len(surprise) == corpus.labels(range(4)) == 12
    assert found == pytest.approx(sum(surprise) / 12, abs=1e-12)


# --- BLEU -------------------------------------------------------------------------------------

WRITTEN = ["a dog runs across the meadow .", "two women drink tea in a garden"]
WANTED = ["a dog runs over the green meadow .", "two women drink tea in a small garden"]


def test_the_score_is_sacrebleus():
    found = bleu(WRITTEN, WANTED)
    assert found.score == BLEU(lowercase=True).corpus_score(WRITTEN, [WANTED]).score
    assert 20 < found.score < 80
    assert str(found) == f"{found.score:.2f}"


def test_the_signature_says_how():
    signature = bleu(WRITTEN, WANTED).signature
    for part in ("nrefs:1", "case:lc", "tok:13a", "version:"):
        assert part in signature


def test_case_does_not_count_and_words_do():
    assert bleu([text.upper() for text in WANTED], WANTED).score == pytest.approx(100)
    assert bleu([text.replace("women", "men") for text in WANTED], WANTED).score < 95


def test_the_interval_is_that_of_sentences_drawn_again():
    written, wanted = WRITTEN * 20, WANTED * 20
    found = bleu(written, wanted, draws=200)
    assert found[:2] == bleu(written, wanted)[:2]
    few = bleu(written[:4], wanted[:4], draws=200)
    assert 0 < found.interval < few.interval
    assert bleu(written, wanted).interval is None
    with pytest.raises(ValueError, match=r"^draws: "):
        bleu(written, wanted, draws=1)


def test_chrf_counts_runs_of_letters():
    found = chrf(WRITTEN, WANTED, draws=50)
    assert found.score == CHRF(lowercase=True).corpus_score(WRITTEN, [WANTED]).score
    assert found.interval > 0
    assert "nc:6" in found.signature
    near, far = (chrf([word], ["translations"]).score for word in ("translation", "dog"))
    assert near > 50 > far


# --- Two systems on the same sentences ----------------------------------------------------------

BETTER = ["a dog runs over the green meadow .", "two women drink tea in a garden"]


def test_a_clear_difference_is_not_chance_and_an_unclear_one_may_be():
    clear = paired_bootstrap(WRITTEN * 20, BETTER * 20, WANTED * 20, draws=300)
    gain = bleu(BETTER * 20, WANTED * 20).score - bleu(WRITTEN * 20, WANTED * 20).score
    assert clear.difference == pytest.approx(gain)
    assert clear.p < 0.01
    mixed = [*BETTER, WRITTEN[0], "two women drink"], [*WRITTEN, BETTER[0], WRITTEN[1]]
    unclear = paired_bootstrap(*mixed, WANTED * 2, draws=300)
    assert unclear.p > 0.05
    assert str(clear) == f"{clear.difference:+.2f} (p = {clear.p:.3f})"


def test_the_same_draws_each_time_and_the_order_only_turns_the_sign():
    once = paired_bootstrap(WRITTEN * 9, BETTER * 9, WANTED * 9, draws=100)
    assert once == paired_bootstrap(WRITTEN * 9, BETTER * 9, WANTED * 9, draws=100)
    back = paired_bootstrap(BETTER * 9, WRITTEN * 9, WANTED * 9, draws=100)
    assert back.difference == pytest.approx(-once.difference)


def test_the_p_of_a_paired_bootstrap_counts_one_direction():
    dice = random.Random(0)

    def spoilt(words, chance):
        return " ".join(dice.choice("abcdef") if dice.random() < chance else word for word in words)

    texts = [dice.choices("abcdef", k=12) for _ in range(40)]
    references = [" ".join(words) for words in texts]
    worse, better = ([spoilt(words, chance) for words in texts] for chance in (0.35, 0.31))
    draws = [[dice.randrange(40) for _ in texts] for _ in range(400)]

    def gain(chosen):
        right = [references[i] for i in chosen]
        first, second = (bleu([side[i] for i in chosen], right).score for side in (worse, better))
        return second - first

    found = paired_bootstrap(worse, better, references)
    chance = np.array([gain(chosen) for chosen in draws])
    chance -= chance.mean()
    assert 0.02 < found.p < 0.2
    assert abs(found.p - (chance > found.difference).mean()) < 0.03
    assert found.p < 0.75 * (abs(chance) > found.difference).mean()


def test_paired_systems_have_the_same_sentences():
    with pytest.raises(ValueError, match=r"^written: expected as many translations"):
        paired_bootstrap(WRITTEN, BETTER[:1], WANTED)
    with pytest.raises(ValueError, match=r"^draws: "):
        paired_bootstrap(WRITTEN, BETTER, WANTED, draws=1)


@pytest.mark.parametrize(("written", "wanted"), [([], []), (WRITTEN, WANTED[:1])])
def test_each_translation_needs_its_reference(written, wanted):
    with pytest.raises(ValueError, match=r"^written: expected as many translations as references"):
        bleu(written, wanted)


def test_without_sacrebleu_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(ValueError, match="pip install sacrebleu pooch"):
        bleu(WRITTEN, WANTED)


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
        strongest = torch.nn.functional.one_hot(torch.tensor(row), 4).double()
        elsewhere = torch.full_like(strongest, 0.25)
        last = torch.stack([0.2 * strongest + 0.8 * elsewhere, elsewhere])  # clear in one head only
        maps.append(torch.stack([torch.stack([elsewhere.roll(1)] * 2), last]))
        maps[-1][0, :, :, 3] += 0.1  # the first layer looks at the last place
    monkeypatch.setattr(evaluation, "cross_maps", lambda *_: iter(maps))
    made = translator()
    assert alignment_agreement(made, PAIRS) == Correct(4, 5)
    assert alignment_agreement(made, PAIRS, layer=1) == Correct(4, 5)
    assert alignment_agreement(made, PAIRS, layer=0) == Correct(0, 5)
    assert alignment_agreement(made, PAIRS, layer=-2) == Correct(0, 5)


def test_the_mean_of_the_heads_decides(monkeypatch):
    heads = torch.tensor([[[0.6, 0.4, 0.0]], [[0.0, 0.5, 0.5]], [[0.5, 0.4, 0.1]]])
    monkeypatch.setattr(evaluation, "cross_maps", lambda *_: iter([heads[None]]))
    for place in range(3):
        pair = Pair("a b c", "A", frozenset({(place, 0)}), "x")
        assert alignment_agreement(translator(), [pair]) == Correct(int(place == 1), 1)


def test_agreement_without_any_alignment_is_of_nothing():
    assert alignment_agreement(translator(), PAIRS[-1:]) == Correct(0, 0)


@pytest.mark.parametrize("layer", [2, -3, "last"])
def test_a_layer_that_is_not_there_is_refused(layer):
    with pytest.raises(ValueError, match=r"layer: expected one of 2 layers, got .*; 0 is"):
        alignment_agreement(translator(), PAIRS, layer=layer)


def test_the_phrasebook_aligns_words_as_they_are_split():
    for pair in sentence_pairs(200):
        german, english = pair.german.split(), pair.english.split()
        assert pair.alignment
        assert all(i < len(german) and j < len(english) for i, j in pair.alignment)
