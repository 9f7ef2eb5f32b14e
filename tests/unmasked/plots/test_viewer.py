"""Tests the viewer's words; tests/browser/ uses the viewer and compares its weights."""

import json
import re

import torch

from helpers.refusals import refusals
from unmasked import AttentionMaps
from unmasked.plots import attention_view


def maps(layers=2, heads=3, source=4, target=5):
    def weights(queries, keys):
        return [torch.randn(1, heads, queries, keys).softmax(-1) for _ in range(layers)]

    return AttentionMaps(weights(source, source), weights(target, target), weights(target, source))


def data_of(view):
    return json.loads(re.search(r'"application/json">(.*?)</script>', view.page)[1])


def test_it_says_what_it_is_and_where_it_opens():
    view = attention_view(maps(), "abcd", "vwxyz", layer=1, head=2)
    data = data_of(view)
    assert data["words"] == {"source": [*"abcd"], "target": [*"vwxyz"]}
    assert data["opens"] == [1, 2]
    assert view._repr_html_() == view.page
    assert "3 heads, source “a b c d”" in repr(view)
    assert data_of(attention_view(maps(), "abcd", "vwxyz"))["opens"] == [0, 0]


def test_words_are_neither_markup_nor_a_place_in_the_page():
    view = attention_view(maps(), ["</script><b>", "&", "@DATA@", "a\udcffb"], "vwxyz")
    assert view.page.count("</script>") == 2
    assert "<b>" not in view.page
    assert data_of(view)["words"]["source"] == ["</script><b>", "&", "@DATA@", "a?b"]


TWO = AttentionMaps([], [], [torch.ones(2, 3, 5, 4)])  # sentences


test_maps_that_do_not_fit_are_refused = refusals(
    (lambda: attention_view(maps(), "abc", "vwxyz"), r"maps.cross: .* got shape \[3, 5, 4\]"),
    (lambda: attention_view(TWO, "abcd", "vwxyz"), r"maps.cross: .* got shape \[2, 3, 5, 4\]"),
)
