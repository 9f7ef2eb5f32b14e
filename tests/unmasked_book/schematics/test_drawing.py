"""The pen: well-formed pictures in the page's own colours, with their words."""

import re
from xml.etree import ElementTree

import pytest

from unmasked_book.schematics.drawing import BLUE, GREY, STYLE, Drawing

NAME = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def drawing():
    return Drawing("Two boxes & an arrow", 200, 100)


def only(drawing):
    (shape,) = ElementTree.fromstring(drawing.svg())
    return shape


def test_it_shows_itself_with_its_words_escaped():
    shown = Drawing('a "quoted" <word>', 200, 100)._repr_html_()
    assert 'aria-label="a &quot;quoted&quot; &lt;word&gt;"' in shown
    group = ElementTree.fromstring(shown)
    assert group.get("aria-label") == 'a "quoted" <word>'
    assert group.get("role") == "group"
    assert group.get("tabindex") == "0"  # it scrolls on a phone, so a keyboard must reach it
    assert [child.tag for child in group] == ["style", f"{NAME}svg"]


def test_in_a_terminal_it_is_its_words(drawing):
    assert repr(drawing) == "Two boxes & an arrow"


@pytest.mark.parametrize(("width", "least"), [(160, "10rem"), (660, "34rem")])
def test_a_wide_one_may_shrink_before_it_scrolls(width, least):
    svg = Drawing("words", width, 100).svg()
    assert f'viewBox="0 0 {width} 100"' in svg
    assert f'style="min-width:{least}"' in svg


def test_its_words_take_the_colour_of_the_page():
    assert "fill: currentColor" in STYLE
    assert min(float(size) for size in re.findall(r"([\d.]+)px (?:sans|mono)", STYLE)) >= 11.5


def test_text_is_escaped_and_has_its_kind_and_colour(drawing):
    drawing.text(12.34567, 50, "<bos> & co", "small start", BLUE)
    text = only(drawing)
    assert "&lt;bos&gt; &amp; co" in drawing.shapes[0]
    assert text.text == "<bos> & co"
    assert text.attrib == {
        "class": "small start", "x": "12.35", "y": "50", "style": f"fill:{BLUE}"
    }  # fmt: skip


def test_text_without_a_colour_has_no_style(drawing):
    drawing.text(1, 2, "word")
    assert only(drawing).get("style") is None


def test_a_box_has_its_words_in_the_middle(drawing):
    drawing.box(10, 20, 60, 30, "norm", kind="mono")
    box, text = ElementTree.fromstring(drawing.svg())
    assert (box.get("x"), box.get("width"), box.get("stroke")) == ("10", "60", GREY)
    assert (text.get("x"), text.get("y"), text.text) == ("40", "39.5", "norm")


def test_a_box_may_be_empty_and_dashed(drawing):
    drawing.box(10, 20, 60, 30, dashed=True)
    assert only(drawing).get("stroke-dasharray") == "4 3"


def test_a_line_is_solid_unless_dashed(drawing):
    drawing.line([(0, 0), (10, 0), (10, 20)])
    assert only(drawing).get("points") == "0,0 10,0 10,20"
    assert only(drawing).get("stroke") == "currentColor"
    assert only(drawing).get("stroke-dasharray") is None
    drawing.line([(0, 0), (10, 0)], dashed=True)
    assert 'stroke-dasharray="4 3"' in drawing.shapes[1]


def test_the_head_of_an_arrow_points_where_it_ends(drawing):
    drawing.arrow((0, 0), (0, 50), BLUE)
    line, head = ElementTree.fromstring(drawing.svg())
    assert line.get("points") == "0,0 0,50"
    tip, *wings = [tuple(map(float, p.split(","))) for p in head.get("points").split()]
    assert tip == (0, 50)
    assert all(y == pytest.approx(42.7, abs=0.1) for _, y in wings)
    assert sum(x for x, _ in wings) == pytest.approx(0)
    assert head.get("fill") == BLUE


def test_circles_are_full_with_or_without_an_edge(drawing):
    drawing.circle(10, 20, 5, BLUE)
    assert (only(drawing).get("fill"), only(drawing).get("stroke")) == (BLUE, BLUE)
    drawing.circle(10, 20, 5, BLUE, stroke=False)
    assert "stroke" not in drawing.shapes[1]


def test_rings_are_hollow(drawing):
    drawing.ring(10, 20, 5, BLUE, 3)
    ring = only(drawing)
    assert (ring.get("fill"), ring.get("stroke"), ring.get("stroke-width")) == ("none", BLUE, "3")


def test_a_stronger_cell_is_more_opaque(drawing):
    drawing.cell(10, 20, 9, 1 / 3)
    assert only(drawing).get("fill-opacity") == "0.33"
    assert only(drawing).get("width") == only(drawing).get("height") == "9"


def test_a_bar_has_square_corners(drawing):
    drawing.bar(10, 20, 52.04, 14, BLUE)
    assert (only(drawing).get("width"), only(drawing).get("height")) == ("52.04", "14")
    assert only(drawing).get("rx") is None


def test_an_index_stands_lower_and_is_escaped(drawing):
    drawing.indexed(10, 20, "W<", "Q&")
    (index,) = only(drawing)
    assert (only(drawing).text, index.text, index.get("dy")) == ("W<", "Q&", "4")
