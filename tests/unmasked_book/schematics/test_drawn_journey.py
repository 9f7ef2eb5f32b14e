"""The opening figure: what is given is what it shows."""

import pytest
import torch

from helpers.drawings import numbers, shapes, texts
from unmasked_book.schematics.drawing import BLUE, GREY, ORANGE, PURPLE
from unmasked_book.schematics.journey import journey

PIECES = ["ich", "·hätte", "·gern", "·ein", "·bier", "·.", "<eos>"]
IDS = [12, 340, 1288, 31, 977, 4, 2]
VECTORS = torch.randn(7, 16, generator=torch.Generator().manual_seed(0))
ANSWER = [("i'd", 0.62), ("·would", 0.21), ("i", 0.08), ("·like", 0.03), ("we", 0.0)]


def draw(**changes):
    given = {"pieces": PIECES, "ids": IDS, "vectors": VECTORS, "answer": ANSWER, "layers": 4}
    return journey(**given | changes)


def cells(drawing):
    return shapes(drawing, "rect", width="10", height="10")


def test_pieces_stand_above_their_ids():
    places = {text.text: text.get("x") for text in shapes(draw(), "text")}
    assert [places[piece] for piece in PIECES] == [places[str(number)] for number in IDS]


def test_cells_have_the_sign_and_strength_of_the_first_eight_numbers():
    coloured = [cell for cell in cells(draw()) if cell.get("fill") != GREY]
    shown = VECTORS[:, :8].flatten()
    assert [c.get("fill") for c in coloured] == [BLUE if v > 0 else ORANGE for v in shown]
    strengths = torch.tensor([numbers(cell, "fill-opacity")[0] for cell in coloured])
    assert torch.allclose(strengths, shown.abs() / shown.abs().max(), atol=0.006)
    empty = cells(draw(vectors=torch.zeros(7, 8)))
    assert {c.get("fill-opacity") for c in empty if c.get("fill") != GREY} == {"0.00"}


def test_the_memory_has_as_many_vectors_and_is_coloured_where_it_is_known():
    grey = [cell for cell in cells(draw()) if cell.get("fill") == GREY]
    assert len(grey) == 7 * 8
    assert len({cell.get("x") for cell in grey}) == 7
    colours = [cell.get("fill") for cell in cells(draw(memory=-VECTORS))]
    assert colours.count(BLUE) == colours.count(ORANGE) == 7 * 8


def test_bars_are_as_long_as_they_are_likely():
    bars = shapes(draw(), "rect", fill=PURPLE, height="14")
    expected = [52, 52 * 0.21 / 0.62, 52 * 0.08 / 0.62, 52 * 0.03 / 0.62, 1]
    assert [numbers(bar, "width")[0] for bar in bars] == pytest.approx(expected, 0.01)
    assert {"i'd", "0.62", "·would", "0.21", "0.00"} <= set(texts(draw()))
    [bar] = shapes(draw(answer=[("a", 0.0)]), "rect", fill=PURPLE, height="14")
    assert bar.get("width") == "1"  # the shortest, for what is impossible


def test_it_says_in_words_what_it_shows():
    said = draw().words
    assert "·hätte is 340" in said
    assert "a vector of 16 numbers, of which 8 are drawn" in said
    assert "4 layers, and leave as 7 context vectors" in said
    assert said.endswith("i'd 0.62, ·would 0.21, i 0.08, ·like 0.03, we 0.00.")
    assert {"encoder: 4 layers", "7 vectors"} <= set(texts(draw()))
    assert "encoder: 1 layer" in texts(draw(layers=1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pieces": "ich"}, "pieces: .* 1 to 8 words"),
        ({"pieces": ["abcdefghijkl"] * 7}, "pieces: .* that fit"),
        ({"ids": IDS[1:]}, "ids: expected 7, .* got 6"),
        ({"vectors": IDS}, "vectors: expected a Tensor, got list"),
        ({"vectors": VECTORS[0]}, r"vectors: .* got \[16\]"),
        ({"vectors": VECTORS[1:]}, r"vectors: .* got \[6, 16\]"),
        ({"vectors": VECTORS[:, :7]}, r"vectors: .* got \[7, 7\]"),
        ({"memory": VECTORS[1:]}, r"memory: .* \[7, 16\], got \[6, 16\]"),
        ({"answer": []}, "answer: .* 1 to 5 words"),
        ({"answer": [("unbelievable", 0.5)]}, "answer: .* 1 to 9 letters"),
        ({"answer": [("a", 1.2)]}, "answer: .* got 1.2"),
        ({"layers": 0}, "layers: .* got 0"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        draw(**changes)
