"""What the pages' elements cannot show is refused; what they show is tested in a browser."""

from helpers import copier
from helpers.refusals import refusals
from unmasked.tokens import Words
from unmasked.translator import Translator
from unmasked_book.live import explore_beam, explore_masks, explore_positions

SOURCE, TARGET = ["ich", "möchte", "ein", "bier", "<eos>"], ["<bos>", "i", "want", "a", "beer"]
WORDS = Words(["<pad>", "<bos>", "<eos>", *"abcdefghi"])


def explored(sentence="d c", **options):
    return lambda: explore_beam(Translator(copier(), WORDS, WORDS), sentence, **options)


test_what_cannot_be_shown_is_refused = refusals(
    (lambda: explore_masks(list("abcdefg"), TARGET), "source"),
    (lambda: explore_masks(SOURCE, "ich"), "target"),
    (lambda: explore_positions(position=101), "position"),
    (lambda: explore_positions(offset=51), "offset"),
    (lambda: explore_positions(widths=(8, 7)), "widths"),
    (lambda: explore_beam(copier(), "d c"), "translator: .* got Transformer"),
    (explored(" "), "sentence: .* got ' '"),
    (explored(widest=0), "widest: .* got 0"),
    (explored(penalties=(0.0, 3.0)), "penalties: .* from 0 to 2, got 3.0"),
)
