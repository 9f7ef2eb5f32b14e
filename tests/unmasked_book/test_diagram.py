"""The architecture's picture: every block leads to a chapter that exists, every shape is there."""

import re
from pathlib import Path
from xml.etree import ElementTree

from unmasked_book.diagram import SITE, WORDS, architecture

BOOK = Path(__file__).parents[2] / "book"
PICTURE = architecture()._repr_html_()


def test_it_is_well_formed_and_the_same_each_time():
    assert ElementTree.fromstring(PICTURE).tag == "div"
    assert architecture()._repr_html_() == PICTURE


def test_every_block_leads_to_a_chapter():
    links = re.findall(r'href="([^"]+)"', PICTURE)
    assert len(links) == 19
    chapters = {link.removeprefix(SITE).removesuffix(".html") for link in links}
    assert all((BOOK / f"{chapter}.ipynb").exists() for chapter in chapters)
    assert chapters == {path.stem for path in BOOK.glob("0[1-7]_*.ipynb")}


def test_the_shapes_stand_on_the_arrows():
    shapes = re.findall(r'class="shape"[^>]*>([^<]+)<', PICTURE)
    assert sorted(shapes) == sorted(
        ["[B, S]", "[B, T]", "[B, S, D]", "[B, T, D]", "[B, S, D]", "[B, T, D]", "[B, T, V]"]
    )


def test_it_says_in_words_what_it_shows():
    assert repr(architecture()) == WORDS
    assert "cross-attention to the memory" in PICTURE


def test_its_colours_are_those_of_the_page():
    assert "currentColor" in PICTURE
    assert not re.search(r"(fill|stroke|color): ?#[0-9a-f]", PICTURE)
