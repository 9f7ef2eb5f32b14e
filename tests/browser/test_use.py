"""What a reader does: menus, search, themes, Colab, downloads, solutions, the keyboard."""

import json
import re
import time

import pytest
from playwright.sync_api import Route

from helpers.pages import ROOT, code_cells, notebooks, repository
from helpers.visit import SIZES, Visit

CHAPTER = "book/01_masks"


def at(width: str, theme: str = "light") -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("size", "theme"), [(SIZES[width], theme)])


@at("wide")
@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("causal", "book/01_masks.html"),
        ("softmax", "book/03_attention.html#by-hand"),
        ("multi-head", "book/03_attention.html#several-heads"),
        ("install", "book/intro.html"),
        ("padding_mask", "book/api.html#unmasked.masks.padding_mask"),
    ],
)
def test_search_begins_with_the_page_that_explains_it(visit: Visit, words: str, first: str):
    page = visit.open(CHAPTER)
    page.keyboard.press("Control+k")
    field = page.locator("input[type=search]:visible").first
    field.fill(words)
    field.press("Enter")
    page.wait_for_selector("ul.search li a")
    links = page.locator("ul.search li > a").evaluate_all("all => all.map(a => a.href)")
    assert links[0].startswith(f"{visit.site}/{first}")


@at("wide")
def test_the_magnifier_stands_before_the_words(visit: Visit):
    form = visit.open("search").locator(".bd-article .bd-search, .bd-search-container .bd-search")
    end = form.locator("i").evaluate("i => i.getBoundingClientRect().right")
    begins = "i => i.getBoundingClientRect().left + parseFloat(getComputedStyle(i).paddingLeft)"
    assert end < form.locator("input").evaluate(begins)


@at("wide")
@pytest.mark.parametrize("name", notebooks())
def test_the_buttons_of_a_chapter_open_colab_and_binder_and_download_it(visit: Visit, name: str):
    page = visit.open(f"book/{name}")
    page.locator(".dropdown-launch-buttons > button").click()
    link = page.locator(".dropdown-launch-buttons a", has_text="Colab")
    assert link.is_visible()
    owner = repository().removeprefix("https://github.com/")
    address = f"https://colab.research.google.com/github/{owner}/blob/main/book/{name}.ipynb"
    assert link.get_attribute("href") == address
    binder = page.locator(".dropdown-launch-buttons a", has_text="Binder").get_attribute("href")
    assert binder == f"https://mybinder.org/v2/gh/{owner}/main?urlpath=lab/tree/book/{name}.ipynb"
    page.keyboard.press("Escape")
    page.locator(".dropdown-download-buttons > button").click()
    link = page.locator(".dropdown-download-buttons a", has_text=".ipynb")
    got = page.request.get(page.evaluate("a => a.href", link.element_handle()))
    assert got.json() == json.loads((ROOT / f"book/{name}.ipynb").read_text(encoding="utf-8"))


@at("narrow")
def test_the_menu_opens_on_a_phone_and_leads_on(visit: Visit):
    page = visit.open(CHAPTER)
    entry = page.locator(".bd-sidebar-primary a", has_text="Positional").first
    assert not entry.is_visible()
    page.locator("button.primary-toggle").first.click()
    entry.wait_for(state="visible")
    entry.click()
    page.wait_for_url(re.compile("02_positional_encoding"))


@at("narrow")
def test_the_contents_of_a_page_open_on_a_phone(visit: Visit):
    page = visit.open(CHAPTER)
    page.locator("button.secondary-toggle").first.click()
    page.locator(".bd-sidebar-secondary a", has_text="By hand").first.wait_for(state="visible")


@at("wide")
def test_the_theme_can_be_switched(visit: Visit):
    page = visit.open(CHAPTER)
    seen = set()
    for _ in range(3):
        page.locator("button.theme-switch-button").first.click()
        seen.add(page.evaluate("document.documentElement.dataset.theme"))
    assert seen == {"light", "dark"}


@at("wide")
def test_solutions_are_folded_and_open_by_keyboard(visit: Visit):
    page = visit.open(CHAPTER)
    folded = page.locator("details.hide", has=page.get_by_text("Show the solution"))
    cells = code_cells(CHAPTER.removeprefix("book/"))
    assert folded.count() == sum(cell.id.startswith("solution-") for cell in cells) >= 3
    code = folded.first.locator("pre").first
    assert not code.is_visible()
    folded.first.locator("summary").focus()
    page.keyboard.press("Enter")
    assert code.is_visible()


@at("wide")
def test_the_keyboard_reaches_what_scrolls(visit: Visit):
    page = visit.open(CHAPTER)
    out_of_reach = page.evaluate(
        "[...document.querySelectorAll('.bd-article pre, .bd-article div.math')]"
        ".filter(e => e.scrollWidth > e.clientWidth && e.tabIndex < 0).length"
    )
    assert out_of_reach == 0


@at("wide")
def test_formulas_are_mathml_in_our_font(visit: Visit):
    page = visit.open("book/02_positional_encoding")
    assert page.locator("math").count() > 20
    assert page.evaluate("document.fonts.check('16px \"Unmasked Math\"')")
    tall = page.locator("div.math mtable").first.bounding_box()
    assert tall["height"] > 30  # a matrix of two rows, not a line of raw TeX


@pytest.mark.parametrize("theme", ["light"])
@pytest.mark.parametrize("name", ["14_claims", "11_looking_inside"])
def test_a_link_into_a_page_lands_there_on_a_slow_line(visit: Visit, name: str):
    """Pictures come when the reader is already there, and nothing moves."""

    def late(route: Route) -> None:
        time.sleep(0.05)
        route.continue_()

    visit.page.route("**/_images/**", late)
    visit.page.goto(f"{visit.site}/book/{name}.html#exercises", wait_until="networkidle")
    top = visit.page.locator("#exercises h2").evaluate("h => h.getBoundingClientRect().top")
    assert -20 < top < 160


@pytest.mark.parametrize("theme", ["light"])
@pytest.mark.parametrize("size", [(718, 1000)])  # what A4 leaves between its margins
@pytest.mark.parametrize("name", notebooks())
def test_on_paper_formulas_are_whole_and_solutions_open(visit: Visit, name: str):
    page = visit.open(f"book/{name}")
    page.emulate_media(media="print")
    wide = "all => all.filter(m => m.getBoundingClientRect().right > innerWidth).length"
    assert page.locator("math[display=block]").evaluate_all(wide) == 0
    solutions = page.locator("details.solution pre")
    heights = solutions.evaluate_all("all => all.map(s => s.checkVisibility() && s.clientHeight)")
    assert all(heights)
    assert len(heights) >= 3 or name.startswith(("00", "15"))
    others = page.locator("details.hide:not(.solution)")
    assert others.count() > 0
    assert not any(other.is_visible() for other in others.all())
