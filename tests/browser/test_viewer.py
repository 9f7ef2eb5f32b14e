"""The attention viewer shows each map that it is given, and chapter 7's diagram leads on."""

from collections.abc import Iterator

import pytest
import torch
from playwright.sync_api import Browser, Locator, expect
from torch import Tensor

from helpers.visit import Visit, alone, faults_on_a_phone
from unmasked.plots.viewer import KINDS, attention_view
from unmasked.transformer import AttentionMaps

WORDS = {"source": ["▁ein", "▁hund", "<eos>"], "target": ["<bos>", "▁a", "▁dog", "."]}
DEPTHS = {"encoder": 1, "decoder": 3, "cross": 3}  # not as deep on both sides
HEADS = 3


@pytest.fixture(scope="module")
def maps() -> AttentionMaps:
    torch.manual_seed(0)
    made: dict[str, list[Tensor]] = {}
    for name, queries, keys in KINDS.values():
        size = (1, HEADS, len(WORDS[queries]), len(WORDS[keys]))
        made[name] = [(3 * torch.randn(size)).softmax(-1) for _ in range(DEPTHS[name])]
    return AttentionMaps(**made)


@pytest.fixture
def view(browser: Browser, maps: AttentionMaps) -> Iterator[Locator]:
    view = attention_view(maps, WORDS["source"], WORDS["target"], layer=2, head=1)
    with alone(browser, view.page) as element:
        yield element


def weights(layers: list[Tensor]) -> list[list[list[list[int]]]]:
    """Returns all weights in percent, and after the heads their mean: [layers, H + 1, Q, S]."""
    heads = (100 * torch.cat(layers)).round()
    mean = (heads.mean(1, keepdim=True) + 0.5).floor()
    return torch.cat([heads, mean], dim=1).int().tolist()


def shows(view: Locator, row: list[int]) -> None:
    expect(view.locator(".uv-keys small")).to_have_text([str(weight) for weight in row])


def test_every_kind_layer_and_head_shows_its_weights(view: Locator, maps: AttentionMaps):
    kind, layer, head = view.locator("select").all()
    expect(layer).to_have_value("2")  # where it was told to open
    expect(head).to_have_value("1")
    for title, (name, queries, keys) in KINDS.items():
        kind.select_option(label=title)
        assert view.locator(".uv-queries button").all_inner_texts() == WORDS[queries]
        assert view.locator("thead th").all_text_contents()[1:] == WORDS[keys]
        expect(layer.locator("option")).to_have_count(DEPTHS[name])
        for number, heads in enumerate(weights(getattr(maps, name))):
            layer.select_option(index=number)
            for place, rows in enumerate(heads):
                head.select_option(index=place)
                cells = [str(weight) for row in rows for weight in row]
                expect(view.locator("tbody td")).to_have_text(cells)
                shows(view, rows[0])


def test_pointing_at_a_word_or_going_there_by_key_shows_what_it_looks_at(
    view: Locator, maps: AttentionMaps
):
    rows, said = weights(maps.cross)[2][1], view.locator(".uv-said")
    view.locator(".uv-queries button").nth(2).hover()
    shows(view, rows[2])
    best = max(range(3), key=rows[2].__getitem__)
    expect(said).to_contain_text(f"▁dog looks at {WORDS['source'][best]} {rows[2][best]}%, ")
    view.locator("select").first.focus()
    for _ in range(4):  # layer, head, the first word, the second
        view.page.keyboard.press("Tab")
    shows(view, rows[1])
    expect(said).to_contain_text("▁a looks at ")


def test_all_heads_can_be_picked_from_also_on_a_phone(view: Locator):
    view.locator(".uv-heads button").nth(4).click()
    for select in view.locator("select").all()[1:]:
        expect(select).to_have_value("1")
    view.locator("summary", has_text="table").click()
    assert faults_on_a_phone(view.page, ".unmasked-view") == []


def test_the_diagram_leads_to_the_chapters_of_this_very_site(visit: Visit):
    page = visit.open("book/07_transformer")
    page.locator(".architecture a", has_text="feed-forward").first.click()
    page.wait_for_url(f"{visit.site}/book/04_feed_forward.html")
