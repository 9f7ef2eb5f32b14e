"""The architecture's picture: its shapes and words, in either order of the norms."""

import re
from xml.etree import ElementTree

import pytest

from unmasked_book.diagram import architecture


@pytest.mark.parametrize(("norm", "norms"), [("post", 0), ("pre", 7)])
def test_it_is_well_formed_and_has_its_shapes_and_norms(norm, norms):
    """Pre-norm has a norm of its own for each of five sublayers, and the last of either half."""
    picture = architecture(norm)._repr_html_()
    assert ElementTree.fromstring(picture).tag == "div"
    assert architecture(norm)._repr_html_() == picture
    shapes = re.findall(r'class="shape"[^>]*>([^<]+)<', picture)
    expected = ["[B, S]", "[B, T]", *["[B, S, D]", "[B, T, D]"] * 2, "[B, T, V]"]
    assert sorted(shapes) == sorted(expected)
    assert re.findall(r">([^<>]+)</text></a>", picture).count("norm") == norms
