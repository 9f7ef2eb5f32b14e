"""Tables: columns that line up in a terminal, and headings and escaped cells in a notebook."""

import re

import pytest

from unmasked_book.tables import Listing, Table

SMALL = Table("A & B", ["one", "a <b>"], {"x & y": ["1", "22"], "z": ["–", "3"]}, note="Here")
LONG = "long " * 12
WORDS = Table("A", ["where", "many"], {"x": ["here", "12"], LONG: ["there", "3"]})


def test_a_terminal_gets_columns_that_line_up():
    assert repr(SMALL) == "A & B. Here\n       one  a <b>\nx & y    1     22\nz        –      3"
    table = Table("A", ["where", "many"], {"x": ["here", "12"], "yy": ["there", "3"]})
    assert repr(table) == "A\n    where  many\nx   here     12\nyy  there     3"


def test_a_notebook_gets_a_table_with_headings_and_nothing_unescaped():
    html = SMALL._repr_html_()
    assert re.findall(r'<th scope="col"[^>]*>(.*?)</th>', html) == ["one", "a &lt;b&gt;"]
    assert re.findall(r'<th scope="row"[^>]*>(.*?)</th>', html) == ["x &amp; y", "z"]
    assert re.findall(r"<td[^>]*>(.*?)</td>", html) == ["", "1", "22", "–", "3"]
    assert re.search(r"<caption[^>]*>A &amp; B. Here</caption>", html)
    assert 'aria-label="A &amp; B"' in html


def test_words_begin_at_the_left_and_a_short_name_stays_on_one_line():
    html = WORDS._repr_html_()
    assert ">A</caption>" in html
    assert '<td style="text-align: left">here</td><td>12</td>' in html
    assert re.findall(r'text-align: (\w+)">(where|many)<', html) == [
        ("left", "where"),
        ("right", "many"),
    ]
    assert re.findall(r"nowrap[^>]*>(\w+)<", html) == ["x"]


def test_a_row_that_does_not_fit_is_named():
    with pytest.raises(ValueError, match="z: 1 cells for 2 columns"):
        Table("A", ["one", "two"], {"z": ["1"]})


def test_a_listing_is_markdown_and_lines():
    listing = Listing([["a", "b"], ["1", "2"]])
    assert listing._repr_markdown_() == "| a | b |\n|---|---|\n| 1 | 2 |"
    assert repr(listing) == "a  b\n1  2"
