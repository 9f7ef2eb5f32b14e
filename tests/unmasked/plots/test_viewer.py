"""The viewer's data, words and size; in a browser it is used in tests/browser/."""

import json
import re

import pytest
import torch

from unmasked import AttentionMaps
from unmasked.plots import attention_view


def maps(layers=2, heads=3, source=4, target=5):
    def weights(queries, keys):
        return [torch.randn(1, heads, queries, keys).softmax(-1) for _ in range(layers)]

    return AttentionMaps(weights(source, source), weights(target, target), weights(target, source))


def words(n, letter):
    return [f"{letter}{i}" for i in range(n)]


def test_it_holds_every_weight_in_percent():
    given = maps()
    page = attention_view(given, words(4, "s"), words(5, "t"))._repr_html_()
    data = json.loads(re.search(r'"application/json">(.*?)</script>', page)[1])
    assert data["words"] == {"source": words(4, "s"), "target": words(5, "t")}
    for title, (kind, queries, keys) in {
        "across: target looks at source": ("cross", "target", "source"),
        "encoder: source looks at itself": ("encoder", "source", "source"),
        "decoder: target looks back": ("decoder", "target", "target"),
    }.items():
        shown = data["maps"][title]
        assert (shown["queries"], shown["keys"]) == (queries, keys)
        for layer, weights in zip(shown["layers"], getattr(given, kind), strict=True):
            assert (torch.tensor(layer) - 100 * weights[0]).abs().max() <= 0.5


def test_it_is_small_self_contained_and_the_same_each_time():
    given = maps(layers=3, heads=4, source=12, target=12)
    pages = [attention_view(given, words(12, "wort"), words(12, "word")).page for _ in range(2)]
    assert pages[0] == pages[1]
    assert len(pages[0].encode()) < 60_000
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", pages[0])


def test_it_says_in_words_what_it_is():
    view = attention_view(maps(), words(4, "s"), words(5, "t"))
    assert repr(view) == (
        "Attention viewer: 2 layers in the encoder, 2 in the decoder, 3 heads, "
        "source “s0 s1 s2 s3”, target “t0 t1 t2 t3 t4”."
    )


def test_it_opens_at_a_layer_and_a_head():
    page = attention_view(maps(), words(4, "s"), words(5, "t"), layer=1, head=2).page
    data = json.loads(re.search(r'"application/json">(.*?)</script>', page)[1])
    assert data["opens"] == [1, 2]


def test_words_cannot_end_the_script_or_make_markup():
    nasty = ["</script><b>", "&", '"', "@ID@"]
    page = attention_view(maps(), nasty, words(5, "t")).page
    assert page.count("</script>") == 2
    assert "<b>" not in page
    data = json.loads(re.search(r'"application/json">(.*?)</script>', page)[1])
    assert data["words"]["source"][:3] == nasty[:3]


def test_words_are_never_taken_for_a_place_in_the_page():
    odd = ["@DATA@", "@ID@", "a\udcffb", "$x_$"]
    view = attention_view(maps(), odd, words(5, "t"))
    data = json.loads(re.search(r'"application/json">(.*?)</script>', view.page)[1])
    assert data["words"]["source"] == ["@DATA@", "@ID@", "a?b", "$x_$"]
    assert "source “@DATA@ @ID@ a?b $x_$”" in view.words
    assert view.page.encode().count(b"@DATA@") == 2  # in the data, and in what is said


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attention_view([1], [], []), "maps: expected an AttentionMaps, got list"),
        (
            lambda: attention_view(maps(), words(3, "s"), words(5, "t")),
            r"maps.cross: expected one sentence's weights, \[heads, 5, 3\].* got shape \[3, 5, 4\]",
        ),
        (
            lambda: attention_view(
                AttentionMaps([], [], [torch.ones(2, 3, 5, 4)]), "abcd", "12345"
            ),
            r"maps.cross: .* got shape \[2, 3, 5, 4\]; give the maps of a batch of one",
        ),
        (
            lambda: attention_view(maps(), words(4, "s"), words(5, "t"), layer=2),
            "layer: expected a number from 0 to 1, got 2",
        ),
        (
            lambda: attention_view(maps(), words(4, "s"), words(5, "t"), head=-1),
            "head: expected a number from 0 to 2, got -1",
        ),
    ],
)
def test_maps_that_do_not_fit_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
