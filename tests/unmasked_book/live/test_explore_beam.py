"""What the page of chapter 9 is given is enough for every search that it offers."""

import json

import pytest

from helpers import copier
from unmasked.search import beam
from unmasked.tokens import Words
from unmasked.translator import Translator
from unmasked_book.live import explore_beam
from unmasked_book.live.explore import beam_of

WORDS = Words(["<pad>", "<bos>", "<eos>", *"abcdefghi"])
ALPHAS = (0.0, 0.6, 1.0)


def translator():
    return Translator(copier(), WORDS, WORDS)


def replayed(data, width, alpha):
    """The best sentence from what the page has, and from nothing else."""
    numbers = [WORDS.words.index(token) for token in data["tokens"]]

    def after(beginning):
        branches = data["tree"]
        for token in beginning:
            [branches] = [branch[2] for branch in branches if numbers[branch[0]] == token]
        return [(numbers[number], value) for number, value, *_ in branches]

    return list(beam_of(after, width, data["limit"], alpha))


@pytest.mark.parametrize("sentence", ["b", "a b c d e f g"])
def test_every_search_that_is_offered_has_what_it_needs_and_finds_what_the_package_finds(sentence):
    data = explore_beam(translator(), sentence, widest=4, penalties=ALPHAS).data
    source = translator().tokens([sentence])
    for width in data["widths"]:
        for alpha in data["penalties"]:
            row = beam(copier(), source, width, length_penalty=alpha).tokens[0, 0]
            assert replayed(data, width, alpha) == row[row != 0].tolist()


def test_data_are_small_and_plain():
    figure = explore_beam(translator(), "d c", widest=3, penalties=(1.0, 0.6))
    data = json.loads(json.dumps(figure.data))
    assert data["sentence"] == "d c"
    assert data["limit"] == 53  # the source, its end, and fifty
    assert (data["widths"], data["penalties"]) == ([1, 2, 3], [0.6, 1.0])
    assert data["start"] == {"width": 3, "penalty": 0.6}
    assert len(data["tree"]) == 6
    values = [value for _, value, *_ in data["tree"]]
    assert values == sorted((round(value, 3) for value in values), reverse=True)
    assert "<pad>" not in data["tokens"]


def test_words_and_html_are_the_same_each_time_and_a_notebook_shows_the_figure_first(monkeypatch):
    first, second = (explore_beam(translator(), "d c", widest=2) for _ in range(2))
    assert first.html() == second.html()
    assert "The sentences that win: “d c”." in repr(first)
    assert '<unmasked-beam class="unmasked-live" role="group" aria-label="A beam' in first.html()
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda x, raw=False: shown.append((x, raw)))
    first._ipython_display_()
    assert shown[0] == (first.picture, False)
    assert shown[1] == ({"text/html": first.html(), "text/plain": first.words}, True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"translator": copier()}, "translator: .* got Transformer"),
        ({"sentence": " "}, "sentence: .* got ' '"),
        ({"widest": 0}, "widest: .* got 0"),
        ({"penalties": (0.0, 3.0)}, "penalties: .* from 0 to 2, got 3.0"),
    ],
)
def test_wrong_arguments_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        explore_beam(**{"translator": translator(), "sentence": "d c", **changes})
