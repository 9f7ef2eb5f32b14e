"""Tests that the pages' elements refuse what they cannot show; a browser tests what they show."""

from helpers import copier
from helpers.refusals import refusals
from unmasked.tokens import Words
from unmasked.translator import Translator
from unmasked_book.live import explore_beam, explore_masks, explore_positions

SOURCE, TARGET = ["ich", "möchte", "ein", "bier", "<eos>"], ["<bos>", "i", "want", "a", "beer"]
WORDS = Words(["<pad>", "<bos>", "<eos>", *"abcdefghi"])


test_what_cannot_be_shown_is_refused = refusals(
    (lambda: explore_masks(list("abcdefg"), TARGET), "source"),
    (lambda: explore_masks(SOURCE, "ich"), "target"),
    (lambda: explore_positions(position=101), "position"),
    (lambda: explore_positions(offset=51), "offset"),
    (lambda: explore_beam(copier(), "d c"), "translator: .* got Transformer"),
    (lambda: explore_beam(Translator(copier(), WORDS, WORDS), " "), "sentence: .* got ' '"),
)
