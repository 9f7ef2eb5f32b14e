"""The translator's HTML: what a notebook gets, and what a page holds before the click."""

import json
import re
from html import unescape

import pytest

from helpers import camel
from unmasked.translator import shipped_models
from unmasked_book import recorded
from unmasked_book.ablation import PARTS
from unmasked_book.live import live, tables
from unmasked_book.live.bundle import HERE
from unmasked_book.live.translator import best_head, box, model_file, script

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


def test_a_page_holds_a_button_that_says_how_much_it_loads():
    html = box("de-en", "../_static/live/", broken=True)
    assert len(html) < 3000
    size = len(model_file("de-en")) + len(script().encode())
    assert f"Load the model ({size / 1e6:.1f} MB)" in html
    page = json.loads(unescape(re.search(r'data-page="([^"]*)"', html)[1]))
    assert page["names"] == shipped_models()
    assert page["at"] == "../_static/live/"
    assert page["open"] is True


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


def test_the_tables_hold_what_was_recorded():
    whole = recorded("ablations")["models"]["de-en"][""]["bleu"]
    assert f"| nothing | {whole:.1f} |" in tables.ablations()
    assert "| token IDs: random Unicode | 1,000 | none | none |" in tables.equality()
