"""Sentences in, sentences out, in the order given; and what is kept in a folder, whole or not."""

import random
from unittest.mock import Mock

import pytest
import torch

from helpers import copier, small_config, small_model
from helpers.refusals import refusals
from unmasked import Transformer, translator
from unmasked.search import beam, greedy
from unmasked.tokens import Words
from unmasked.translator import Translator, load

SMALL, LARGE = Words.of(["a b c d e f g h i"]), Words.of(["A B C D E F G H I"])
SIZES = {"source_vocab": len(SMALL), "target_vocab": len(LARGE)}


def untrained(**changes):
    return Translator(Transformer(small_config(**SIZES, **changes)).eval(), SMALL, LARGE)


def trained():
    """It writes capitals, and ends its sentences, each at another time."""
    return Translator(copier(), SMALL, LARGE)


@pytest.mark.parametrize(("beam_size", "batch"), [(1, 4), (3, 1), (3, 4), (3, 128)])
def test_each_translation_is_the_one_found_alone_and_in_its_place(monkeypatch, beam_size, batch):
    monkeypatch.setattr(translator, "BATCH", batch)
    made = trained()
    dice = random.Random(2)
    sentences = [" ".join(dice.choices("abcdef", k=dice.randint(1, 7))) for _ in range(23)]
    found = made.translate(sentences, beam_size=beam_size)
    for sentence, written in zip(sentences, found, strict=True):
        source = made.tokens([sentence])
        best = beam(made.model, source, beam_size).tokens[:, 0]
        tokens = greedy(made.model, source) if beam_size == 1 else best
        assert written == LARGE.decode(tokens[0].tolist())
    right = sum(a.upper() == b for a, b in zip(sentences, found, strict=True))
    assert right > 10  # so that the places are told apart
    assert len(set(found)) > 15


def test_samples_are_those_of_the_search_each_in_its_place():
    made, options = trained(), {"temperature": 2.0, "top_k": 5}
    found = made.sample(["a b c d", "", "b a"], 40, **options, seed=3)
    assert [len(texts) for texts in found] == [40, 0, 40]
    assert found == made.sample(["a b c d", "", "b a"], 40, **options, seed=3)
    assert found != made.sample(["a b c d", "", "b a"], 40, **options, seed=4)
    assert "A B C D" in found[0]
    assert "B A" in found[2]


def test_sentences_of_a_length_go_together_and_the_longest_first(monkeypatch):
    """What is too long, or takes too much memory, fails at once and not after an hour."""
    texts, search = ["a", "b c d", "", "a b", "c c c", "b"], Mock(wraps=greedy)
    monkeypatch.setattr(translator, "greedy", search)
    with monkeypatch.context() as patch:
        patch.setattr(translator, "BATCH", 2)
        untrained().translate(texts, max_new_tokens=1)
    monkeypatch.setattr(translator, "BUDGET", 8)  # tokens, however many sentences may go together
    untrained().translate(texts, max_new_tokens=1)
    shapes = [call.args[1].shape for call in search.call_args_list]
    assert shapes == [(2, 4), (2, 3), (1, 2)] * 2


def test_an_empty_sentence_stays_empty_a_text_gives_one_and_options_reach_the_search(monkeypatch):
    made, search = trained(), Mock(wraps=beam)
    assert made.translate("a b") == made.translate(["a b"])[0]
    assert made.translate([]) == []
    one, blank, two = made.translate(text for text in ("a b", " \t", "c"))
    assert [one, blank, two] == [*made.translate(["a b"]), "", *made.translate(["c"])]
    assert len(made.translate("a b c d", max_new_tokens=2).split()) == 2
    assert torch.equal(made.tokens("a b"), made.tokens(["a b"]))
    assert made.sample("a b", 3, seed=0) == made.sample(["a b"], 3, seed=0)[0]
    for found in (
        made.translate(["c", "", "a b"], prefix=["D", "A", ""], beam_size=2),
        [texts[0] if texts else "" for texts in made.sample(["c", "", "b"], prefix="D")],
    ):
        assert found[0].startswith("D")
        assert found[1] == ""

    monkeypatch.setattr(translator, "beam", search)
    made.translate(["a"], beam_size=2, length_penalty=0.25)
    assert search.call_args.kwargs["length_penalty"] == 0.25
    assert search.call_args.kwargs["normalize"] == "gnmt"
    made.about |= {"beam_size": 3, "length_penalty": 1.5, "normalize": "length"}
    made.translate(["a"])
    assert search.call_args.args[2] == 3
    assert search.call_args.kwargs["length_penalty"] == 1.5
    assert search.call_args.kwargs["normalize"] == "length"


def test_a_translator_moves_says_what_it_is_and_loads_in_another_type(tmp_path):
    made = untrained()
    made.save(tmp_path / "small.safetensors")
    loaded = load(tmp_path / "small.safetensors", dtype=torch.float64)
    assert "parameters, torch.float64, cpu" in repr(loaded)
    assert loaded.to(torch.float32).model.state_dict().keys() == made.model.state_dict().keys()
    assert loaded.translate("a b") == made.translate("a b")
    assert load("de-en", device="meta").device.type == "meta"


# --- Refusals ---------------------------------------------------------------------------------

WHOLE = "expected a whole number of at least"


def translate(sentences, max_len=5000, positions="sinusoidal", **options):
    made = untrained(max_len=max_len, positions=positions)
    return lambda: made.translate(sentences, **options)


def sample(sentences, *given, **options):
    return lambda: untrained().sample(sentences, *given, **options)


test_what_cannot_be_translated_is_refused = refusals(
    (translate(["a", "", "b z"]), "sentence 3: expected one of the 12 words .* got 'z'"),
    (translate(["a", None]), "sentence 2: expected a text, got NoneType"),
    (translate(["a", "a " * 801], max_len=200), "sentence 2: expected at most .*, got 802"),
    (translate(["a b c", "a b c d"], 4, "learned"), "sentence 2: .* at most the 4 tok.*, got 5;"),
    (translate(["a"], length_penalty=1.0), "length_penalty: expected a beam .* got 1.0"),
    (translate(["a \udcff"]), "sentence 1: expected text in Unicode, .* at character 3"),
    (translate(["a"], beam_size=2, normalize="x"), "normalize: expected 'gnmt' or 'length', got"),
    (translate(["a"], beam_size=13), "beam_size: expected at most .* 12, got 13"),
    (lambda: untrained().corpus(["ab"]), "pair: expected a source and a target, got 'ab'"),
    (translate(["a"], normalize="gnmt"), "normalize: expected a beam .* got 'gnmt'"),
    (translate(["a"], prefix=["A", "B"]), "prefix: expected one text, or 1, got 2"),
    (translate(["a"], prefix="z"), "prefix: expected words the model can write, got 'z'"),
    (translate(["a"], prefix="A B C", max_new_tokens=2), "prefix: expected 1 rows of at most 2 to"),
    (sample(["a"], 0), f"n_samples: {WHOLE} 1, got 0"),
    (lambda: Translator(small_model(), SMALL, LARGE), "source: .* 23 words, got 12"),
)


def test_sinusoids_go_on_and_a_warning_says_that_the_model_was_made_for_less():
    made = untrained(max_len=4)
    message = r"sentence 2: expected at most the 4 tokens .* got 5; .*: this will be slow, and poor"
    with pytest.warns(UserWarning, match=message):
        found = made.translate(["a b c", "a b c d"], max_new_tokens=3)
    assert found[0] == made.translate(["a b c"], max_new_tokens=3)[0]
