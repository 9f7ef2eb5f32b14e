"""The attention viewer and the diagram of chapter 7, used as a reader would use them."""

import pytest
import torch
from playwright.sync_api import Locator, Page

from helpers.visit import SIZES, Visit, faults_of_access, overflow
from unmasked.plots.viewer import attention_view
from unmasked.transformer import AttentionMaps

CHAPTER = "book/07_transformer"
READ = ["▁ein", "▁alter", "▁mann", "▁liest", "▁eine", "▁zeitung", "▁im", "▁park", ".", "<eos>"]
PRODUCED = ["<bos>", "▁an", "▁old", "▁man", "▁reading", "▁a", "▁newspaper", "▁in", "▁the", "▁park",
            "."]  # fmt: skip
DESK = pytest.mark.parametrize(("size", "theme"), [(SIZES["wide"], "light")])


def viewer(page: Page) -> Locator:
    view = page.locator(".unmasked-view")
    view.scroll_into_view_if_needed()
    return view


def percents(view: Locator) -> list[int]:
    return [int(text) for text in view.locator(".uv-keys small").all_inner_texts()]


@DESK
def test_pointing_at_a_word_shows_what_it_looks_at(visit: Visit):
    view = viewer(visit.open(CHAPTER))
    words = view.locator(".uv-queries button")
    assert words.all_inner_texts() == PRODUCED
    first = percents(view)
    words.nth(5).hover()
    assert percents(view) != first
    assert abs(sum(percents(view)) - 100) <= 3
    said = view.locator(".uv-said").inner_text()
    assert said.startswith("▁a looks at ")
    assert f"{max(percents(view))}%" in said
    assert words.nth(5).get_attribute("aria-pressed") == "true"


@DESK
def test_it_can_be_used_by_keyboard_alone(visit: Visit):
    page = visit.open(CHAPTER)
    view = viewer(page)
    view.locator("select").first.focus()
    for _ in range(3):  # layer, head, the first word
        page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == PRODUCED[1]
    assert view.locator(".uv-said").inner_text().startswith("▁an looks at ")


@DESK
def test_kind_layer_and_head_can_be_chosen(visit: Visit):
    view = viewer(visit.open(CHAPTER))
    kind, layer, head = (view.locator("select").nth(i) for i in range(3))
    view.locator(".uv-queries button").nth(4).click()
    view.page.mouse.move(0, 0)
    seen = {tuple(percents(view))}
    assert (layer.input_value(), head.input_value()) == ("1", "1")  # where the page opens it
    layer.select_option(index=2)
    seen.add(tuple(percents(view)))
    head.select_option(label="mean")
    seen.add(tuple(percents(view)))
    kind.select_option(label="encoder: source looks at itself")
    assert view.locator(".uv-queries button").all_inner_texts() == READ
    kind.select_option(label="decoder: target looks back")
    assert percents(view)[0] == 100  # the first word can only look at itself
    assert len(seen) == 3


@DESK
def test_all_heads_can_be_picked_from(visit: Visit):
    view = viewer(visit.open(CHAPTER))
    heads = view.locator(".uv-heads button")
    assert heads.count() == 16  # a row for each layer
    rows = {heads.nth(i).bounding_box()["y"] for i in range(4)}
    assert len(rows) == 1
    assert heads.nth(4).bounding_box()["y"] > rows.pop()
    heads.nth(6).click()
    assert view.locator("select").nth(1).input_value() == "1"
    assert view.locator("select").nth(2).input_value() == "2"
    assert heads.nth(6).get_attribute("aria-pressed") == "true"
    painted = heads.first.locator("canvas").evaluate(
        "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v > 0)"
    )
    assert painted


@DESK
def test_the_table_holds_the_same_numbers(visit: Visit):
    view = viewer(visit.open(CHAPTER))
    view.locator("summary", has_text="table").click()
    cells = view.locator("tbody tr").first.locator("td").all_inner_texts()
    assert [int(cell) for cell in cells] == percents(view)
    assert view.locator("tbody th").all_inner_texts() == PRODUCED


@pytest.mark.parametrize("size", [SIZES["narrow"]])
def test_it_works_by_touch_on_a_phone_in_both_themes(visit: Visit):
    page = visit.open(CHAPTER)
    view = viewer(page)
    view.locator(".uv-queries button").nth(3).click()
    assert view.locator(".uv-said").inner_text().startswith("▁man looks at ")
    view.locator("summary", has_text="table").click()
    assert faults_of_access(page, ".unmasked-view") == []
    assert overflow(page) <= 0


@DESK
def test_the_diagram_leads_to_the_chapters_of_this_very_site(visit: Visit):
    page = visit.open(CHAPTER)
    blocks = page.locator(".unmasked-diagram a")
    assert blocks.count() == 26
    blocks.filter(has_text="feed-forward").first.click()
    page.wait_for_load_state()
    assert page.url == f"{visit.site}/book/04_feed_forward.html"


@DESK
def test_an_encoder_that_is_not_as_deep_as_the_decoder(visit: Visit):
    shallow, deep = [torch.ones(1, 2, 2, 2) / 2], [torch.ones(1, 2, 3, 3).tril() / 3] * 3
    cross = [torch.ones(1, 2, 3, 2) / 2] * 3
    view = attention_view(AttentionMaps(shallow, deep, cross), ["a", "b"], ["x", "y", "z"])
    visit.page.set_content(view.page)
    kind, layer = (visit.page.locator("select").nth(i) for i in range(2))
    assert layer.locator("option").count() == 3
    layer.select_option(index=2)
    kind.select_option(label="encoder: source looks at itself")
    assert layer.locator("option").count() == 1
    assert visit.page.locator(".uv-keys small").all_inner_texts() == ["50", "50"]
    kind.select_option(label="decoder: target looks back")
    assert layer.locator("option").count() == 3
