"""The translator's HTML: what a notebook gets, and what a page holds before the click."""

import re

import pytest

from helpers import camel
from unmasked.translator import shipped_models
from unmasked_book import recorded
from unmasked_book.ablation import PARTS
from unmasked_book.live import live, tables
from unmasked_book.live.bundle import HERE
from unmasked_book.live.translator import best_head

PARTS_OF_THE_PAGE = (
    "encoder_positions", "decoder_positions", "cross", "encoder_self", "decoder_self", "scale",
    "residuals", "norms", "feed_forward",
)  # fmt: skip


@pytest.mark.parametrize("name", shipped_models())
def test_a_notebooks_output_holds_everything(name):
    view = live(name)
    html = view._repr_html_()
    assert len(html) < 4.2e6
    assert not re.search(r'(src|href)="|https?://(?!www\.w3\.org)', html)
    assert "A caption in" in repr(view)
    assert html.count("</script>") == 1
    with pytest.raises(ValueError, match=r"model: .*'de-en' or 'en-de', got 'xx'"):
        live("xx")
    assert live(name)._repr_html_() != html  # two in one notebook do not get in each other's way


@pytest.mark.parametrize("name", shipped_models())
def test_the_best_head_is_the_one_of_the_record(name):
    aligned = recorded(f"multi30k-{name}")["atlas"]["cross"]["aligned"]
    layer, head = best_head(name)
    assert aligned[layer][head] == max(map(max, aligned))


def test_the_switches_are_those_of_the_package_by_the_same_names():
    text = (HERE / "widgets/switches.js").read_text(encoding="utf-8")
    groups = dict(re.findall(r'^      (\w+): \[\s*"([^"]+)"', text, re.MULTILINE))
    assert list(groups) == [camel(part) for part in PARTS_OF_THE_PAGE]
    assert set(tables.PARTS) - {""} == set(PARTS)
    for part in PARTS:
        label = groups[camel(part)]
        assert tables.PARTS[part] in (label, f"positions {label}")
