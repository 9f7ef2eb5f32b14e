"""Sentences in, sentences out, in the order given; and what is kept in a folder, whole or not."""

import random
from functools import cache

import pytest
import torch

from helpers import small_config, small_model
from unmasked import Transformer, translator
from unmasked.loss import translation_loss
from unmasked.search import beam, greedy
from unmasked.tokens import BOS, EOS, PADDING, Words
from unmasked.training.fit import fit
from unmasked.translator import Translator

SMALL, LARGE = Words.of(["a b c d e f"]), Words.of(["A B C D E F"])
SIZES = {"source_vocab": len(SMALL), "target_vocab": len(LARGE)}


def untrained(**changes):
    return Translator(Transformer(small_config(**SIZES, **changes)).eval(), SMALL, LARGE)


def drawn(count, longest=7, seed=1):
    """Sentences of the letters a to f, of all lengths, and the same in capitals."""
    dice = random.Random(seed)
    texts = [" ".join(dice.choices("abcdef", k=dice.randint(1, longest))) for _ in range(count)]
    return [(text, text.upper()) for text in texts]


@cache
def trained():
    """Taught for two seconds to write capitals: it ends its sentences, each at another time."""
    torch.manual_seed(0)
    made = untrained(d_model=32, n_heads=2, n_layers=1, dropout=0.0, norm="pre")
    corpus = made.corpus(drawn(64 * 120))
    batches = [corpus.batch(range(start, start + 64)) for start in range(0, len(corpus), 64)]
    fit(made.model, translation_loss, batches, rate=1e-2)
    made.model.double()
    return made


def test_sentences_become_tokens_with_their_marks():
    made = untrained()
    assert made.tokens(["a c", "b"]).tolist() == [[3, 5, EOS], [4, EOS, PADDING]]
    corpus = made.corpus([("a c", "F"), ("b", "A B")])
    assert corpus.source == [[3, 5, EOS], [4, EOS]]
    assert corpus.target == [[BOS, 8, EOS], [BOS, 3, 4, EOS]]


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 4, 128])
def test_each_translation_is_the_one_found_alone_and_in_its_place(beam_size, batch_size):
    made = trained()
    sentences = [text for text, _ in drawn(23, seed=2)]
    found = made.translate(sentences, beam_size=beam_size, batch_size=batch_size)
    for sentence, written in zip(sentences, found, strict=True):
        source = made.tokens([sentence])
        if beam_size == 1:
            tokens = greedy(made.model, source)
        else:
            tokens = beam(made.model, source, beam_size).tokens[:, 0]
        assert written == LARGE.decode(tokens[0].tolist())
    right = sum(a.upper() == b for a, b in zip(sentences, found, strict=True))
    assert right > 15  # so that the places are told apart
    assert len(set(found)) > 15


def test_samples_are_those_of_the_search_each_in_its_place():
    made = trained()
    sentences = ["a b c d", "", "b a"]
    found = made.sample(sentences, 40, temperature=2.0, top_k=5, seed=3)
    assert [len(texts) for texts in found] == [40, 0, 40]
    assert found == made.sample(sentences, 40, temperature=2.0, top_k=5, seed=3)
    assert found != made.sample(sentences, 40, temperature=2.0, top_k=5, seed=4)
    assert "A B C D" in found[0]
    assert "B A" in found[2]
    assert len(set(found[0])) > 5
    [[alone]] = made.sample(["b a"], top_p=1e-6)
    assert alone == made.translate(["b a"])[0]
    with pytest.raises(ValueError, match=r"^n_samples: expected a whole number of at least 1"):
        made.sample(["a"], 0)
    with pytest.raises(ValueError, match=r"^sentences: expected a list of sentences"):
        made.sample("a")
    for seed in (-1, 0.5, True):
        with pytest.raises(ValueError, match=r"^seed: expected a whole number of at least 0"):
            made.sample(["a"], seed=seed)


def test_sentences_of_a_length_go_together_and_the_longest_first(monkeypatch):
    """What is too long, or takes too much memory, fails at once and not after an hour."""
    shapes = []
    monkeypatch.setattr(
        translator, "greedy", lambda *given: shapes.append(given[1].shape) or greedy(*given)
    )
    untrained().translate(["a", "b c d", "", "a b", "c c c", "b"], batch_size=2, max_new_tokens=1)
    assert shapes == [(2, 4), (2, 3), (1, 2)]


def test_settings_reach_the_search(monkeypatch):
    made = trained()
    for beam_size in (1, 3):
        [whole] = made.translate(["a b c d"], beam_size=beam_size)
        assert len(whole.split()) > 2
        [cut] = made.translate(["a b c d"], beam_size=beam_size, max_new_tokens=2)
        assert len(cut.split()) == 2
    given = {}
    monkeypatch.setattr(
        translator, "beam", lambda *a, **options: given.update(options) or beam(*a, **options)
    )
    made.translate(["a"], beam_size=2, length_penalty=0.25)
    assert given == {"length_penalty": 0.25}


def test_an_empty_sentence_stays_empty():
    made = trained()
    assert made.translate([]) == []
    assert made.translate(["", " \t"]) == ["", ""]
    one, blank, two = made.translate(["a b", "", "c"])
    assert [one, blank, two] == [*made.translate(["a b"]), "", *made.translate(["c"])]


def test_a_model_in_training_goes_on_training():
    made = untrained(dropout=0.5, embedding_std=1.0)
    sentences = [text for text, _ in drawn(20)]
    expected = made.translate(sentences)
    assert len(set(expected)) > 5
    made.model.train()
    assert made.translate(sentences) == expected  # without dropout
    assert made.model.training


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("progress", [True, False])
def test_the_progress_bar_is_for_a_terminal(monkeypatch, terminal, progress):
    bars = []

    class Bar:
        def __init__(self, **options):
            self.shown, self.total, self.done = not options.get("disable"), options["total"], 0
            bars.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def update(self, count):
            self.done += count

    monkeypatch.setattr(translator, "tqdm", Bar)
    monkeypatch.setattr(translator.sys.stderr, "isatty", lambda: terminal)
    untrained().translate(["a", "b c", "", "d"], progress=progress, batch_size=2, max_new_tokens=1)
    assert [(bar.shown, bar.total, bar.done) for bar in bars] == [(terminal and progress, 3, 3)]


# --- Refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: untrained().sample("a b"),
            "sentences: expected a list of sentences, got a single text; put it in a list, even "
            "if it is alone",
        ),
        (
            lambda: untrained().translate(["a", "", "b z"]),
            "sentence 3: expected one of the 9 words that the model has learnt, got 'z'; write in "
            "lower case, with blanks around , and ?",
        ),
        (
            lambda: untrained().translate(["a"], beam_size=0),
            "beam_size: expected a whole number of at least 1, got 0; pass 1 or more",
        ),
        (
            lambda: untrained().translate(["a"], beam_size=2.0),
            "beam_size: expected a whole number of at least 1, got 2.0; pass 1 or more",
        ),
        (
            lambda: untrained().translate(["a"], beam_size=10),
            "beam_size: expected at most the target vocabulary's 9, got 10; use a smaller beam",
        ),
        (
            lambda: untrained().translate(["a"], beam_size=2, length_penalty=-1.0),
            "length_penalty: expected a number from 0 to 10, got -1.0; 0 compares plain "
            "log-probabilities, more favours longer sentences",
        ),
        (
            lambda: untrained().translate(["a"], batch_size=0),
            "batch_size: expected a whole number of at least 1, got 0; pass 1 or more",
        ),
        (
            lambda: untrained().translate(["a", None]),
            "sentence 2: expected a text, got NoneType; decode it, or leave it out",
        ),
        (
            lambda: untrained().translate([b"a"]),
            "sentence 1: expected a text, got bytes; decode it, or leave it out",
        ),
        (
            lambda: untrained().translate(["a \udcff"]),
            "sentence 1: expected text in Unicode, got what is none at character 3; save or type "
            "it as UTF-8",
        ),
        (
            lambda: untrained(positions="learned", max_len=4).translate(["a b c", "a b c d"]),
            "sentence 2: expected at most the 4 tokens that the model was made for, got 5; give "
            "it sentence by sentence",
        ),
        (
            lambda: Translator(small_model(), SMALL, LARGE),
            "source: expected the model's 23 words, got 9; make the model's configuration with "
            "len(words)",
        ),
        (
            lambda: Translator(None, SMALL, LARGE),
            "model: expected a Transformer, got NoneType; pass one",
        ),
    ],
)
def test_what_cannot_be_translated_is_refused(call, message):
    with pytest.raises(ValueError, match=r".") as error:
        call()
    assert str(error.value) == message


def test_sinusoids_go_on_and_a_warning_says_that_the_model_was_made_for_less():
    made = untrained(max_len=4)
    message = r"sentence 2: expected at most the 4 tokens .* got 5; .*: this will be slow, and poor"
    with pytest.warns(UserWarning, match=message):
        found = made.translate(["a b c", "a b c d"], max_new_tokens=3)
    assert found[0] == made.translate(["a b c"], max_new_tokens=3)[0]


def test_learned_positions_bound_what_is_written():
    made = untrained(positions="learned", max_len=4, embedding_std=1.0)
    assert [len(text.split()) for text in made.translate(["a b c", "d"])] == [4, 4]
