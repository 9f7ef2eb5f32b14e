"""The drawings: each is well-formed, described and used."""

import re
from xml.etree import ElementTree

import pytest

from helpers.pages import BOOK, notebooks
from unmasked_book.figures import FOLDER, figure, figure_names

SVG = "{http://www.w3.org/2000/svg}"
PAGES = "".join((BOOK / f"{name}.ipynb").read_text("utf-8") for name in notebooks())
USED = set(re.findall(r'figure\(\\"([a-z-]+)\\"\)', PAGES))


@pytest.mark.parametrize("name", figure_names())
def test_a_figure_is_described_and_used(name):
    root = ElementTree.parse(FOLDER / f"{name}.svg").getroot()
    described = root.findtext(f"{SVG}desc")
    assert described == repr(figure(name))
    assert len(described) > 60
    assert name in USED


def test_an_unknown_figure_is_refused():
    with pytest.raises(ValueError, match=r"name: expected .*clocks"):
        figure("cloks")
