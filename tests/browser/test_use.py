"""What a reader does: menus, search, themes, Colab, downloads, solutions, the keyboard."""

import json
import re

from helpers.pages import ROOT, code_cells
from helpers.visit import SIZES, Visit
from repository import current as repository

CHAPTER = "book/01_masks"


def test_search_begins_with_the_page_that_explains_it(visit: Visit):
    page = visit.open(CHAPTER)
    for words, first in (
        ("causal", "book/01_masks.html"),
        ("softmax", "book/03_attention.html#by-hand"),
        ("padding_mask", "book/api.html#unmasked.masks.padding_mask"),
    ):
        page.keyboard.press("Control+k")
        field = page.locator("input[type=search]:visible").first
        field.fill(words)
        field.press("Enter")
        page.wait_for_url(re.compile(rf"[?&]q={words}\b"))
        page.wait_for_selector("ul.search li a")
        links = page.locator("ul.search li > a").evaluate_all("all => all.map(a => a.href)")
        assert links[0].startswith(f"{visit.site}/{first}")


def test_the_buttons_of_a_chapter_open_colab_and_binder_and_download_it(visit: Visit):
    page = visit.open(CHAPTER)
    page.locator(".dropdown-launch-buttons > button").click()
    owner = repository().removeprefix("https://github.com/")
    for name, address in (
        ("Colab", f"https://colab.research.google.com/github/{owner}/blob/main/{CHAPTER}.ipynb"),
        ("Binder", f"https://mybinder.org/v2/gh/{owner}/main?urlpath=lab/tree/{CHAPTER}.ipynb"),
    ):
        link = page.locator(".dropdown-launch-buttons a", has_text=name)
        assert link.is_visible()
        assert link.get_attribute("href") == address
    page.keyboard.press("Escape")
    page.locator(".dropdown-download-buttons > button").click()
    link = page.locator(".dropdown-download-buttons a", has_text=".ipynb")
    got = page.request.get(page.evaluate("a => a.href", link.element_handle()))
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
    assert folded.count() == sum(cell.id.startswith("solution-") for cell in cells) >= 3
    code = folded.first.locator("pre").first
    assert not code.is_visible()
    folded.first.locator("summary").focus()
    page.keyboard.press("Enter")
    assert code.is_visible()
