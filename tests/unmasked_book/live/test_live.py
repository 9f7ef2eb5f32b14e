"""The figure's HTML: what a notebook gets, and what a page holds before the click."""

import inspect
import re

import pytest

from unmasked import plain
from unmasked.translator import shipped_models
from unmasked_book.ablation import PARTS
from unmasked_book.live import live, tables
from unmasked_book.live.bundle import HERE
from unmasked_book.live.code import lines_of_places
from unmasked_book.live.translator import camel


@pytest.mark.parametrize("name", shipped_models())
def test_a_notebooks_output_holds_everything(name):
    view = live(name)
    html = view._repr_html_()
    assert len(html) < 4.2e6
    assert not re.search(
        r'(src|href)="|https?://(?!www\.w3\.org|github\.com/transformer-unmasked)', html
    )
    assert "A caption in" in repr(view)
    assert html.count("</script>") == 1
    with pytest.raises(ValueError, match=r"model: .*'de-en' or 'en-de', got 'xx'"):
        live("xx")
    assert live(name)._repr_html_() != html  # two in one notebook do not get in each other's way


def test_the_switches_are_those_of_the_package_by_the_same_names():
    text = (HERE / "widgets/places.js").read_text(encoding="utf-8")
    assert set(re.findall(r"^  (\w+):\n", text, re.MULTILINE)) == set(map(camel, PARTS))
    assert tables.PARTS.keys() == {"", *PARTS}


def test_every_line_of_plain_py_has_its_box_or_the_build_stops():
    places = lines_of_places()
    drawn = set(re.findall(r"[\w.-]+", (HERE / "places.json").read_text(encoding="utf-8")))
    assert places.keys() <= drawn
    assert all(main for main, _ in places.values())
    source = inspect.getsource(plain)
    for old, new, said in (
        (
            "        real, so_far",
            "        source = source\n        real, so_far",
            "no box .* 'source = source'",
        ),
        ("memory = self.encoder_norm(memory)", "memory = memory", "0 lines fit"),
        ("y = self.attention_norm(x)", "y = x\n        y = self.attention_norm(x)", "2 lines fit"),
    ):
        with pytest.raises(ValueError, match=said):
            lines_of_places(source.replace(old, new))
