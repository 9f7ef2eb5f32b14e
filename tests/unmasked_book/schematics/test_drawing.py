"""The pen; and what every drawing has: it is well-formed, and says in words what it shows."""

import math
from xml.etree import ElementTree

import pytest
import torch

from helpers.drawings import numbers, shapes
from unmasked_book.schematics.attention import (
    five_steps,
    query_key_value,
    saturation,
    split_and_merge,
)
from unmasked_book.schematics.decoder import growing_cache, teacher_forcing
from unmasked_book.schematics.drawing import Drawing
from unmasked_book.schematics.journey import journey
from unmasked_book.schematics.layers import bent_plane, layer_norm, residual_stream
from unmasked_book.schematics.positions import clock_hands

PAIRS = torch.eye(2)
STEPS = {"tokens": ["a", "b"], "query": PAIRS[0], "keys": PAIRS, "values": PAIRS, "chosen": "b"}
JOURNEY = {"pieces": ["<a>"], "ids": [3], "vectors": torch.ones(1, 8), "answer": [("b&c", 0.5)],
           "layers": 1}  # fmt: skip
DRAWINGS = {
    "five_steps": (five_steps, STEPS),
    "query_key_value": (query_key_value, {"tokens": ["<a>", "b&c"], "chosen": "<a>"}),
    "split_and_merge": (split_and_merge, {}),
    "saturation": (saturation, {"scores": [1.2, 0.4], "factors": [1, 4]}),
    "teacher_forcing": (teacher_forcing, {"source": ["<a>"], "target": ["b&c"]}),
    "growing_cache": (growing_cache, {"tokens": ["<bos>", "a"]}),
    "journey": (journey, JOURNEY),
    "residual_stream": (residual_stream, {}),
    "layer_norm": (layer_norm, {"points": torch.tensor([[1.0, 2.0, 6.0]])}),
    "bent_plane": (bent_plane, {}),
    "clock_hands": (clock_hands, {"positions": [0, 63], "d_model": 8}),
}


@pytest.mark.parametrize(("draw", "given"), DRAWINGS.values(), ids=DRAWINGS)
def test_a_drawing_is_well_formed_the_same_each_time_within_its_page_and_has_its_words(draw, given):
    drawing = draw(**given)
    assert len(drawing.words) > 60
    assert ElementTree.fromstring(drawing._repr_html_()).get("aria-label") == drawing.words
    assert draw(**given).svg() == drawing.svg()
    for box in shapes(drawing, "rect"):
        x, y, width, height = numbers(box, "x", "y", "width", "height")
        assert 0 <= x <= drawing.width - width
        assert 0 <= y <= drawing.height - height


@pytest.mark.parametrize(
    ("name", "changes", "argument"),
    [
        ("five_steps", {"tokens": ["ich"] * 6}, "tokens"),
        ("five_steps", {"tokens": ["Donaudampfer", "b"]}, "tokens"),
        ("five_steps", {"chosen": "wein"}, "chosen"),
        ("five_steps", {"query": torch.zeros(3)}, "query"),
        ("five_steps", {"keys": torch.zeros(3, 2)}, "keys"),
        ("five_steps", {"values": torch.full((2, 2), math.nan)}, "values"),
        ("query_key_value", {"tokens": []}, "tokens"),
        ("query_key_value", {"chosen": "wein"}, "chosen"),
        ("split_and_merge", {"d_model": 12, "n_heads": 5}, "n_heads"),
        ("split_and_merge", {"d_model": 26, "n_heads": 2}, "d_model"),
        ("saturation", {"scores": [1.0] * 7}, "scores"),
        ("saturation", {"factors": [1, 2, 3, 4]}, "factors"),
        ("saturation", {"scores": [1.0, math.nan]}, "factors"),
        ("teacher_forcing", {"source": "ich"}, "source"),
        ("teacher_forcing", {"target": ["a", ""]}, "target"),
        ("growing_cache", {"tokens": ["a"] * 6}, "tokens"),
        ("journey", {"pieces": ["abcdefghijkl"] * 7}, "pieces"),
        ("journey", {"ids": [3, 4]}, "ids"),
        ("journey", {"vectors": torch.ones(1, 7)}, "vectors"),
        ("journey", {"memory": torch.ones(2, 8)}, "memory"),
        ("journey", {"answer": [("a", 1.2)]}, "answer"),
        ("journey", {"layers": 0}, "layers"),
        ("layer_norm", {"points": torch.ones(2, 4)}, "points"),
        ("layer_norm", {"points": torch.ones(1, 3)}, "points"),
        ("clock_hands", {"positions": [64]}, "positions"),
        ("clock_hands", {"d_model": 3}, "d_model"),
    ],
)
def test_what_has_no_room_or_cannot_be_drawn_is_named(name, changes, argument):
    draw, given = DRAWINGS[name]
    with pytest.raises(ValueError, match=f"^{argument}: "):
        draw(**given | changes)


def test_it_shows_itself_with_its_words_escaped():
    drawing = Drawing('a "quoted" <word>', 160, 100)
    assert repr(drawing) == 'a "quoted" <word>'
    shown = ElementTree.fromstring(drawing._repr_html_())
    assert shown.get("aria-label") == 'a "quoted" <word>'
    assert shown.get("tabindex") == "0"  # it scrolls on a phone, so a keyboard must reach it
    assert shown[1].get("viewBox") == "0 0 160 100"
