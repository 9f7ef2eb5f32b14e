"""Every page fits in a real browser, can be read and printed, and takes nothing from outside.

The pages share one stylesheet. So colours, in either theme, are looked at on a few of them.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from helpers.pages import pages
from helpers.visit import COLOURS, SIZES, Visit, faults_of_access, overflow, visiting

FIRST_VISIT = 1.4e6  # bytes, figures aside
SAMPLE = ("book/01_masks", "book/live", "search")  # code and solutions, a live box, no article
WITHOUT_COLOURS = {"rules": {name: {"enabled": False} for name in COLOURS}}
REACHED = """() => [...document.querySelectorAll("pre, .pst-scrollable-table-container")].every(
    (box) => box.scrollWidth <= box.clientWidth || box.tabIndex >= 0)"""
BYTES = """performance.getEntries().filter((entry) => !entry.name.includes("/_images/"))
    .reduce((sum, entry) => sum + (entry.encodedBodySize || 0), 0)"""
INKS = """["p", "math", "pre span", "h2", "td"]
    .map((part) => document.querySelector(".bd-article " + part)).filter(Boolean)
    .map((e) => getComputedStyle(e).color.slice(4, -1).split(",").map(Number))"""
CUT = "all => all.filter(m => m.getBoundingClientRect().right > innerWidth).length"
SHOWN = "all => all.map(s => s.checkVisibility() && s.clientHeight)"
STORED_FIGURE = "div.cell_output:has(.unmasked-live) > img"


@pytest.fixture(scope="module")
def shared(browser: Browser, site: str) -> Iterator[Visit]:
    with visiting(browser, site) as visit:
        yield visit


@pytest.mark.parametrize("name", [*pages(), "search", "genindex"])
def test_the_page_opens_and_fits_on_screens_and_on_paper(shared: Visit, name: str):
    page = shared.page
    page.emulate_media(media="screen", color_scheme="light")
    page.set_viewport_size(SIZES["wide"])
    shared.open(name)
    expect(page.locator("h1:visible")).to_have_count(1)
    assert name not in pages() or page.evaluate(BYTES) < FIRST_VISIT
    for size, theme in (("wide", "light"), ("narrow", "dark")):
        page.set_viewport_size(SIZES[size])
        page.emulate_media(color_scheme=theme)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        assert overflow(page) <= 0
        page.wait_for_function(REACHED)
        if name in SAMPLE:
            assert all((ink < 128) == (theme == "light") for ink in inks(page))
            assert faults_of_access(page) == []
        elif theme == "light":  # code is more than half of a chapter's elements
            assert faults_of_access(page, {"exclude": [["pre"]]}, **WITHOUT_COLOURS) == []
    page.set_viewport_size(SIZES["paper"])
    page.emulate_media(media="print")
    assert page.locator("math[display=block]").evaluate_all(CUT) == 0
    assert shared.faults == []


def inks(page: Page) -> list[float]:
    """Returns the brightness of text, formulas, code and headings, from 0 to 255."""
    return [0.3 * red + 0.59 * green + 0.11 * blue for red, green, blue in page.evaluate(INKS)]


def test_print_is_dark_on_white_with_open_solutions_and_figures_that_stand_still(visit: Visit):
    visit.page.emulate_media(color_scheme="dark")
    page = visit.open("book/01_masks")
    figure = page.locator(STORED_FIGURE)
    expect(figure).not_to_be_visible()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert max(inks(page)) < 140
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background in {"rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"}
    expect(figure).to_be_visible()
    expect(figure).not_to_have_js_property("naturalWidth", 0)
    expect(page.locator(".cell_output .unmasked-live:visible")).to_have_count(0)
    solutions = page.locator("details.solution pre").evaluate_all(SHOWN)
    assert all(solutions)
    assert len(solutions) >= 3
    expect(page.locator("details.hide:not(.solution):visible")).to_have_count(0)


def test_without_scripts_the_page_says_so_and_keeps_its_figures(browser: Browser, site: str):
    with browser.new_page(java_script_enabled=False) as page:
        for name, shown in (("live", "noscript p"), ("01_masks", STORED_FIGURE)):
            page.goto(f"{site}/book/{name}.html")
            expect(page.locator(shown)).to_be_visible()
