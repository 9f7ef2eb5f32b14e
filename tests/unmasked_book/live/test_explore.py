"""What the pages' elements for masks and positions are given, and what they say."""

import html
import json
import re

import pytest

from helpers.refusals import refusals
from unmasked_book.live import explore_masks, explore_positions

SOURCE, TARGET = ["ich", "möchte", "ein", "bier", "<eos>"], ["<bos>", "i", "want", "a", "beer"]
ELEMENTS = {
    "masks": lambda: explore_masks(SOURCE, TARGET),
    "positions": explore_positions,
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_its_html_carries_data_and_words_and_is_the_same_each_time(name):
    explored = ELEMENTS[name]()
    page = explored.html()
    assert json.loads(html.unescape(re.search(r' data="([^"]*)"', page)[1])) == explored.data
    assert html.escape(repr(explored)) in page
    assert ELEMENTS[name]().html() == page


test_what_does_not_fit_is_refused = refusals(
    (lambda: explore_masks(list("abcdefg"), TARGET), "source"),
    (lambda: explore_masks(SOURCE, "ich"), "target"),
    (lambda: explore_positions(position=101), "position"),
    (lambda: explore_positions(offset=51), "offset"),
)
