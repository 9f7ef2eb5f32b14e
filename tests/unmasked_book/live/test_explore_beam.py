"""What the page of chapter 9 is given is enough for every search that it offers."""

import pytest

from helpers import copier
from helpers.refusals import refusals
from unmasked.search import beam
from unmasked.tokens import Words
from unmasked.translator import Translator
from unmasked_book.live import explore_beam
from unmasked_book.search_tree import grown

WORDS = Words(["<pad>", "<bos>", "<eos>", *"abcdefghi"])


def translator():
    return Translator(copier(), WORDS, WORDS)


def replayed(data, width, alpha):
    """The best sentence from what the page has, and from nothing else."""

    def after(beginning):
        branches = data["tree"]
        for token in beginning:
            [branches] = [branch[2] for branch in branches if branch[0] == WORDS.words[token]]
        return [(WORDS.words.index(token), value) for token, value, *_ in branches]

    return grown(after, width, data["limit"], alpha)[1].path()


@pytest.mark.parametrize("sentence", ["b", "a b c d e f g"])
def test_every_search_that_is_offered_has_what_it_needs_and_finds_what_the_package_finds(sentence):
    data = explore_beam(translator(), sentence).data
    source = translator().tokens([sentence])
    for width in data["widths"][::2]:
        for alpha in data["penalties"]:
            row = beam(copier(), source, width, length_penalty=alpha).tokens[0, 0]
            assert replayed(data, width, alpha) == row[row != 0].tolist()


test_wrong_arguments_are_refused = refusals(
    (lambda: explore_beam(copier(), "d c"), "translator: .* got Transformer"),
    (lambda: explore_beam(translator(), " "), "sentence: .* got ' '"),
)
