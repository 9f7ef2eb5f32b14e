import re

import pytest

from unmasked_book.tables import Listing, Table

ROWS = {"x & y": ["1", "22"], "z": ["–", "3"]}
SMALL = Table("A & B", ["one", "a <b>"], ROWS, note="Here")


def test_a_terminal_gets_columns_that_line_up():
    assert repr(SMALL) == "A & B. Here\n       one  a <b>\nx & y    1     22\nz        –      3"


def test_a_notebook_gets_a_table_with_headings_and_nothing_unescaped():
    html = SMALL._repr_html_()
    assert re.findall(r'<th scope="col"[^>]*>(.*?)</th>', html) == ["one", "a &lt;b&gt;"]
    assert re.findall(r'<th scope="row"[^>]*>(.*?)</th>', html) == ["x &amp; y", "z"]
    assert re.findall(r"<td[^>]*>(.*?)</td>", html) == ["", "1", "22", "–", "3"]
    assert re.search(r"<caption[^>]*>A &amp; B. Here</caption>", html)
    assert 'aria-label="A &amp; B"' in html
    assert ">A</caption>" in Table("A", ["one"], {"x": ["1"]})._repr_html_()


def test_words_begin_at_the_left_and_numbers_end_at_the_right():
    html = Table("A", ["where", "many"], {"x": ["here", "12"], "y": ["there", "3"]})._repr_html_()
    looks = dict(re.findall(r"text-align: (\w+)\">(here|where|many)<", html)[::-1])
    assert re.search(r'<table [^>]*style="text-align: right"', html)
    assert '<td style="text-align: left">here</td><td>12</td>' in html
    assert looks == {"left": "where", "right": "many"}
    assert html.count("<td></td>") == 1  # a heading without a name is none


def test_a_terminal_has_words_at_the_left_too():
    table = Table("A", ["where", "many"], {"x": ["here", "12"], "yy": ["there", "3"]})
    assert repr(table) == "A\n    where  many\nx   here     12\nyy  there     3"


def test_a_short_name_stays_on_one_line():
    html = Table("A", ["one"], {"short": ["1"], "long " * 12: ["2"]})._repr_html_()
    assert html.count("nowrap") == 1
    assert re.search(r'nowrap">short<', html)


def test_a_row_that_does_not_fit_is_named():
    with pytest.raises(ValueError, match="z: 1 cells for 2 columns"):
        Table("A", ["one", "two"], {"z": ["1"]})


def test_a_listing_is_markdown_and_lines():
    listing = Listing([["a", "b"], ["1", "2"]])
    assert listing._repr_markdown_() == "| a | b |\n|---|---|\n| 1 | 2 |"
    assert repr(listing) == "a  b\n1  2"
