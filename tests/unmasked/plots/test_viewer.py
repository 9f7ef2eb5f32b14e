"""Tests what may break the viewer's page; tests/browser/ uses it and compares words and weights."""

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
