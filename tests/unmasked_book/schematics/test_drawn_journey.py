"""The opening figure: what is given is what it shows."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest
import torch

from unmasked_book.schematics.drawing import BLUE, GREY, ORANGE, PURPLE
from unmasked_book.schematics.journey import journey

PIECES = ["ich", "·hätte", "·gern", "·ein", "·bier", "·.", "<eos>"]
IDS = [12, 340, 1288, 31, 977, 4, 2]
VECTORS = torch.randn(7, 16, generator=torch.Generator().manual_seed(0))
ANSWER = [("i'd", 0.62), ("·would", 0.21), ("i", 0.08), ("·like", 0.03), ("we", 0.0)]


def draw(**changes):
    given = {"pieces": PIECES, "ids": IDS, "vectors": VECTORS, "answer": ANSWER, "layers": 4}
    return journey(**given | changes)


def shapes(drawing, kind, **attributes):
    found = ElementTree.fromstring(drawing.svg()).iter(f"{{http://www.w3.org/2000/svg}}{kind}")
    return [s for s in found if all(s.get(name) == value for name, value in attributes.items())]


def texts(drawing):
    return [text.text for text in shapes(drawing, "text")]


def cells(drawing):
    return shapes(drawing, "rect", width="10", height="10")


def test_it_is_well_formed_and_the_same_each_time():
    shown = draw()._repr_html_()
    assert ElementTree.fromstring(shown).get("aria-label") == draw().words
    assert draw()._repr_html_() == shown


@pytest.mark.parametrize("length", [1, 2, 7])
def test_pieces_stand_above_their_ids(length):
    drawing = draw(pieces=PIECES[:length], ids=IDS[:length], vectors=VECTORS[:length])
    places = {text.text: float(text.get("x")) for text in shapes(drawing, "text")}
    for piece, number in zip(PIECES[:length], IDS[:length], strict=True):
        assert places[piece] == places[str(number)]
    middle = sum(places[PIECES[i]] for i in (0, length - 1)) / 2
    assert middle == pytest.approx(266, abs=5)


def test_boxes_neither_overlap_nor_leave_the_picture():
    drawing = draw(pieces=["·wenigste", *PIECES[1:]])
    boxes = shapes(drawing, "rect", y="16")
    edges = [(float(b.get("x")), float(b.get("x")) + float(b.get("width"))) for b in boxes]
    assert len(edges) == 7
    assert all(a[1] + 5 <= b[0] for a, b in pairwise(edges))
    for box in shapes(drawing, "rect"):
        assert 0 <= float(box.get("x")) <= 660 - float(box.get("width"))
        assert 0 <= float(box.get("y")) <= drawing.height - float(box.get("height"))


def test_cells_have_the_sign_and_strength_of_the_first_eight_numbers():
    drawing = draw()
    coloured = [cell for cell in cells(drawing) if cell.get("fill") != GREY]
    shown = VECTORS[:, :8].flatten()
    assert [c.get("fill") for c in coloured] == [BLUE if v > 0 else ORANGE for v in shown]
    strengths = torch.tensor([float(c.get("fill-opacity")) for c in coloured])
    assert torch.allclose(strengths, shown.abs() / shown.abs().max(), atol=0.006)


def test_the_memory_has_as_many_vectors_in_grey():
    grey = [cell for cell in cells(draw()) if cell.get("fill") == GREY]
    assert len(grey) == 7 * 8
    assert len({cell.get("x") for cell in grey}) == 7
    assert "7 vectors" in texts(draw())


def test_the_memory_is_coloured_where_it_is_known():
    drawing = draw(memory=-VECTORS)
    colours = [cell.get("fill") for cell in cells(drawing)]
    assert colours.count(BLUE) == colours.count(ORANGE) == 7 * 8
    assert GREY not in colours
    with pytest.raises(ValueError, match=r"memory: expected the vectors' \[7, 16\], got \[6, 16\]"):
        draw(memory=VECTORS[1:])


def test_vectors_of_nothing_but_zeros_are_empty():
    drawing = draw(vectors=torch.zeros(7, 8))
    assert {c.get("fill-opacity") for c in cells(drawing) if c.get("fill") != GREY} == {"0.00"}


def test_bars_are_as_long_as_they_are_likely():
    bars = [float(b.get("width")) for b in shapes(draw(), "rect", fill=PURPLE, height="14")]
    assert bars == pytest.approx(
        [52, 52 * 0.21 / 0.62, 52 * 0.08 / 0.62, 52 * 0.03 / 0.62, 1], 0.01
    )
    assert {"i'd", "0.62", "·would", "0.21", "0.00"} <= set(texts(draw()))


def test_impossible_answers_have_the_shortest_bars():
    bars = shapes(draw(answer=[("a", 0.0)]), "rect", fill=PURPLE, height="14")
    assert [bar.get("width") for bar in bars] == ["1"]


def test_layers_are_counted():
    assert "encoder: 4 layers" in texts(draw())
    assert "encoder: 1 layer" in texts(draw(layers=1))


def test_it_says_in_words_what_it_shows():
    said = draw().words
    assert "·hätte is 340" in said
    assert "a vector of 16 numbers, of which 8 are drawn" in said
    assert "4 layers, and leave as 7 context vectors" in said
    assert said.endswith("i'd 0.62, ·would 0.21, i 0.08, ·like 0.03, we 0.00.")


def test_pieces_are_escaped():
    assert "&lt;eos&gt;" in draw().svg()
    assert "<eos>" not in draw().svg()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pieces": "ich"}, "pieces: expected a list of 1 to 8 words"),
        ({"pieces": ["abcdefghijkl"] * 7}, "pieces: expected pieces that fit beside each other"),
        ({"ids": IDS[1:]}, "ids: expected 7, one for each piece, got 6"),
        ({"vectors": IDS}, "vectors: expected a Tensor, got list"),
        ({"vectors": VECTORS[0]}, r"vectors: expected \[7, d\] with d of at least 8, got \[16\]"),
        ({"vectors": VECTORS[1:]}, r"got \[6, 16\]"),
        ({"vectors": VECTORS[:, :7]}, r"got \[7, 7\]"),
        ({"answer": []}, "answer: expected a list of 1 to 5 words"),
        ({"answer": [("unbelievable", 0.5)]}, "answer: expected words of 1 to 9 letters"),
        ({"answer": [("a", 1.2)]}, "answer: expected a number from 0 to 1, got 1.2"),
        ({"layers": 0}, "layers: expected a whole number of at least 1, got 0"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        draw(**changes)
