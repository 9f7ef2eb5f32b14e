"""Tables: columns that line up in a terminal, and headings and escaped cells in a notebook."""

import re

from unmasked_book.tables import Table

SMALL = Table("A & B", ["one", "a <b>"], {"x & y": ["1", "22"], "z": ["<", "3"]}, note="Here")


def test_a_terminal_gets_columns_that_line_up():
    assert repr(SMALL) == "A & B. Here\n       one  a <b>\nx & y    1     22\nz        <      3"


def test_a_notebook_gets_a_table_with_headings_and_nothing_unescaped():
    html = SMALL._repr_html_()
    assert re.findall(r'<th scope="col"[^>]*>(.*?)</th>', html) == ["one", "a &lt;b&gt;"]
    assert re.findall(r'<th scope="row"[^>]*>(.*?)</th>', html) == ["x &amp; y", "z"]
    assert re.findall(r"<td[^>]*>(.*?)</td>", html) == ["", "1", "22", "&lt;", "3"]
    assert re.search(r"<caption[^>]*>A &amp; B. Here</caption>", html)
    assert 'aria-label="A &amp; B"' in html
