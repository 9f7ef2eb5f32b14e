"""The pen; and what every drawing has: it is well-formed, and says in words what it shows."""

from xml.etree import ElementTree

import pytest
import torch

from helpers.drawings import corners, numbers, shapes
from unmasked_book.schematics.attention import (
    five_steps,
    query_key_value,
    saturation,
    split_and_merge,
)
from unmasked_book.schematics.decoder import growing_cache, teacher_forcing
from unmasked_book.schematics.drawing import BLUE, GREY, Drawing
from unmasked_book.schematics.journey import journey
from unmasked_book.schematics.layers import bent_plane, layer_norm, residual_stream
from unmasked_book.schematics.positions import clock_hands

PAIRS = torch.eye(2)
DRAWINGS = {
    "five_steps": lambda: five_steps(["a", "b"], PAIRS[0], PAIRS, PAIRS, "b"),
    "query_key_value": lambda: query_key_value(["<a>", "b&c"], "<a>"),
    "split_and_merge": split_and_merge,
    "saturation": lambda: saturation([1.2, 0.4], [1, 4]),
    "teacher_forcing": lambda: teacher_forcing(["<a>"], ["b&c"]),
    "growing_cache": lambda: growing_cache(["<bos>", "a"]),
    "journey": lambda: journey(["<a>"], [3], torch.ones(1, 8), [("b&c", 0.5)], layers=1),
    "residual_stream": residual_stream,
    "layer_norm": lambda: layer_norm(torch.tensor([[1.0, 2.0, 6.0]])),
    "bent_plane": bent_plane,
    "clock_hands": lambda: clock_hands([0, 63], 8),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_well_formed_the_same_each_time_within_its_page_and_has_its_words(name):
    drawing = DRAWINGS[name]()
    assert len(drawing.words) > 60
    assert ElementTree.fromstring(drawing._repr_html_()).get("aria-label") == drawing.words
    assert DRAWINGS[name]().svg() == drawing.svg()
    for box in shapes(drawing, "rect"):
        x, y, width, height = numbers(box, "x", "y", "width", "height")
        assert 0 <= x <= drawing.width - width
        assert 0 <= y <= drawing.height - height
    for text in shapes(drawing, "text"):
        x, y = numbers(text, "x", "y")
        assert 0 < x < drawing.width
        assert 0 < y < drawing.height


@pytest.mark.parametrize(("width", "least"), [(160, "10rem"), (660, "34rem")])
def test_it_shows_itself_with_its_words_escaped(width, least):
    drawing = Drawing('a "quoted" <word>', width, 100)
    assert repr(drawing) == 'a "quoted" <word>'
    shown = ElementTree.fromstring(drawing._repr_html_())
    assert shown.get("aria-label") == 'a "quoted" <word>'
    assert shown.get("role") == "group"
    assert shown.get("tabindex") == "0"  # it scrolls on a phone, so a keyboard must reach it
    assert [child.tag.rpartition("}")[2] for child in shown] == ["style", "svg"]
    assert shown[1].get("viewBox") == f"0 0 {width} 100"
    assert shown[1].get("style") == f"min-width:{least}"  # it may shrink before it scrolls


@pytest.mark.parametrize(
    ("name", "given", "options", "expected"),
    [
        ("text", (1.234567, 5, "<b> &", "small", BLUE), {},
         {"class": "small", "x": "1.235", "y": "5", "style": f"fill:{BLUE}"}),
        ("text", (1, 2, "word"), {}, {"style": None}),
        ("box", (10, 20, 60, 30), {"dashed": True},
         {"x": "10", "width": "60", "stroke": GREY, "stroke-dasharray": "4 3"}),
        ("line", ([(0, 0), (10, 0), (10, 20)],), {},
         {"points": "0,0 10,0 10,20", "stroke": "currentColor", "stroke-dasharray": None}),
        ("line", ([(0, 0), (10, 0)],), {"dashed": True}, {"stroke-dasharray": "4 3"}),
        ("circle", (10, 20, 5, BLUE), {}, {"r": "5", "fill": BLUE, "stroke": BLUE}),
        ("circle", (10, 20, 5, BLUE), {"stroke": False}, {"stroke": None}),
        ("ring", (10, 20, 5, BLUE, 3), {}, {"fill": "none", "stroke": BLUE, "stroke-width": "3"}),
        ("cell", (10, 20, 9, 1 / 3), {}, {"fill-opacity": "0.33", "width": "9", "height": "9"}),
        ("bar", (10, 20, 52.04, 14, BLUE), {}, {"width": "52.04", "height": "14", "rx": None}),
    ],
)  # fmt: skip
def test_a_shape_is_what_was_asked_for(name, given, options, expected):
    drawing = Drawing("words", 200, 100)
    getattr(drawing, name)(*given, **options)
    [shape] = ElementTree.fromstring(drawing.svg())
    assert {key: shape.get(key) for key in expected} == expected


def test_words_are_escaped_and_stand_in_the_middle_of_their_box():
    drawing = Drawing("words", 200, 100)
    drawing.box(10, 20, 60, 30, "<bos> & co", kind="mono")
    drawing.indexed(10, 20, "W<", "Q&")
    _, text, name = ElementTree.fromstring(drawing.svg())
    assert (text.get("x"), text.get("y"), text.text) == ("40", "39.5", "<bos> & co")
    assert (name.text, name[0].text, name[0].get("dy")) == ("W<", "Q&", "4")


def test_the_head_of_an_arrow_points_where_it_ends():
    drawing = Drawing("words", 200, 100)
    drawing.arrow((0, 0), (0, 50), BLUE)
    line, head = ElementTree.fromstring(drawing.svg())
    assert line.get("points") == "0,0 0,50"
    tip, *wings = corners(head)
    assert tip == (0, 50)
    assert all(y == pytest.approx(42.7, abs=0.1) for _, y in wings)
    assert sum(x for x, _ in wings) == pytest.approx(0)
