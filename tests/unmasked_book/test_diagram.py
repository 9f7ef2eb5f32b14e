"""The architecture's picture: its shapes and words, in either order of the norms."""

import re
from xml.etree import ElementTree

import pytest

from unmasked_book.diagram import WORDS, architecture


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_it_is_well_formed_the_same_each_time_and_has_its_shapes(norm):
    picture = architecture(norm)._repr_html_()
    assert ElementTree.fromstring(picture).tag == "div"
    assert architecture(norm)._repr_html_() == picture
    shapes = re.findall(r'class="shape"[^>]*>([^<]+)<', picture)
    assert sorted(shapes) == sorted(
        ["[B, S]", "[B, T]", *["[B, S, D]", "[B, T, D]"] * 2, "[B, T, V]"]
    )


def test_with_the_norms_before_there_are_norms_adds_and_a_last_norm():
    assert repr(architecture()) == WORDS
    labels = re.findall(r">([^<>]+)</text></a>", architecture("pre")._repr_html_())
    assert labels.count("add") == 5
    assert labels.count("norm") == 7  # one for each of five sublayers, and the last of either half
    assert "add &amp; norm" not in labels
    assert "after a last norm, out comes the memory" in repr(architecture("pre"))
    with pytest.raises(ValueError, match="norm: expected 'post' or 'pre'"):
        architecture("none")
