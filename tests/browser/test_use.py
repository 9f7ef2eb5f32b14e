"""A reader can use menus, search, themes, Colab, downloads and solutions, also by keyboard."""

import json
import re

import pytest
from playwright.sync_api import expect

from helpers.pages import ROOT, code_cells
from helpers.visit import SIZES, Visit
from repository import current as repository

CHAPTER = "book/01_masks"


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("causal", "book/01_masks.html"),
        ("softmax", "book/03_attention.html#by-hand"),
        ("padding_mask", "book/api.html#unmasked.masks.padding_mask"),
    ],
)
def test_search_begins_with_the_page_that_explains_it(visit: Visit, words: str, first: str):
    page = visit.open(CHAPTER)
    page.keyboard.press("Control+k")
    field = page.locator("input[type=search]:visible").first
    field.fill(words)
    field.press("Enter")
    link = page.locator("ul.search li > a").first
    link.wait_for()
    assert link.evaluate("a => a.href").startswith(f"{visit.site}/{first}")


def test_the_buttons_of_a_chapter_open_colab_and_binder_and_download_it(visit: Visit):
    page = visit.open(CHAPTER)
    page.locator(".dropdown-launch-buttons > button").click()
    owner = repository().removeprefix("https://github.com/")
    for name, address in (
        ("Colab", f"https://colab.research.google.com/github/{owner}/blob/main/{CHAPTER}.ipynb"),
        ("Binder", f"https://mybinder.org/v2/gh/{owner}/main?urlpath=lab/tree/{CHAPTER}.ipynb"),
    ):
        link = page.locator(".dropdown-launch-buttons a", has_text=name)
        expect(link).to_be_visible()
        expect(link).to_have_attribute("href", address)
    page.keyboard.press("Escape")
    page.locator(".dropdown-download-buttons > button").click()
    link = page.locator(".dropdown-download-buttons a", has_text=".ipynb")
    got = page.request.get(link.evaluate("a => a.href"))
    assert got.json() == json.loads((ROOT / f"{CHAPTER}.ipynb").read_text(encoding="utf-8"))


def test_the_menus_open_on_a_phone_and_lead_on(visit: Visit):
    visit.page.set_viewport_size(SIZES["narrow"])
    for side, title, goal in (
        ("secondary", "From a mean", "#from-a-mean-to-a-mask"),
        ("primary", "Positional", "02_positional_encoding"),
    ):
        page = visit.open(CHAPTER)
        page.locator(f"button.{side}-toggle").first.click()
        page.locator(f".bd-sidebar-{side} a", has_text=title).first.click()
        page.wait_for_url(re.compile(goal))


def test_the_theme_can_be_switched_and_solutions_open_by_keyboard(visit: Visit):
    page = visit.open(CHAPTER)
    seen = set()
    for _ in range(3):
        page.locator("button.theme-switch-button").first.click()
        seen.add(page.evaluate("document.documentElement.dataset.theme"))
    assert seen == {"light", "dark"}
    folded = page.locator("details.hide", has=page.get_by_text("Show the solution"))
    cells = code_cells(CHAPTER.removeprefix("book/"))
    expect(folded).to_have_count(sum(cell.id.startswith("solution-") for cell in cells))
    code = folded.first.locator("pre").first
    expect(code).not_to_be_visible()
    folded.first.locator("summary").press("Enter")
    expect(code).to_be_visible()
