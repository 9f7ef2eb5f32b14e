"""The architecture's picture: its links, shapes and words, the same each time."""

import re
from xml.etree import ElementTree

import pytest

from unmasked_book.diagram import WORDS, architecture

PICTURE = architecture()._repr_html_()


def test_it_is_well_formed_and_the_same_each_time():
    assert ElementTree.fromstring(PICTURE).tag == "div"
    assert architecture()._repr_html_() == PICTURE


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


def test_with_the_norms_before_there_are_norms_adds_and_a_last_norm():
    picture = architecture("pre")._repr_html_()
    assert ElementTree.fromstring(picture).tag == "div"
    labels = re.findall(r">([^<>]+)</text></a>", picture)
    assert labels.count("add") == 5
    assert labels.count("norm") == 7  # one for each of five sublayers, and the last of either half
    assert "add &amp; norm" not in picture
    assert "after a last norm, out comes the memory" in repr(architecture("pre"))
    assert "a norm before it" in picture


def test_the_memory_enters_at_cross_attention():
    for norm in ("post", "pre"):
        picture = architecture(norm)._repr_html_()
        [top] = re.findall(r'y="(\d+)"[^>]*/><text[^>]*>cross-attention', picture)
        [enters] = re.findall(r"H318 V(\d+) H", picture)
        assert int(top) < int(enters) <= int(top) + 52


def test_another_order_is_refused():
    with pytest.raises(ValueError, match="norm: expected 'post' or 'pre'"):
        architecture("none")
