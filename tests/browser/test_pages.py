"""Every page in a real browser: both themes, two widths, no fault, nothing fetched from outside."""

import pytest
from playwright.sync_api import Browser, Page

from helpers.pages import notebooks, pages
from helpers.visit import SIZES, Visit, faults_of_access, overflow

FIRST_VISIT = 1.4e6  # bytes, figures aside
ARTICLES = set(pages())
CHAPTERS = {f"book/{name}" for name in notebooks()}
# In each theme a width, and what may differ there from what axe has seen before.
THEMES = {
    "light": ("wide", ()),
    "dark": ("narrow", ("color-contrast", "scrollable-region-focusable", "target-size")),
}
CODE = "book/01_masks"  # where the words of code are looked at, too: they are coloured alike
PLAIN_CODE = "document.querySelectorAll('.highlight pre').forEach(e => e.textContent += '')"
REACHED = """() => [...document.querySelectorAll("pre, .pst-scrollable-table-container")].every(
    (box) => box.scrollWidth <= box.clientWidth || box.tabIndex >= 0)"""
BYTES = """performance.getEntries().filter((entry) => !entry.name.includes("/_images/"))
    .reduce((sum, entry) => sum + (entry.encodedBodySize || 0), 0)"""
INKS = """["p", "math", "pre span", "h2", "td"]
    .map((part) => document.querySelector(".bd-article " + part)).filter(Boolean)
    .map((e) => getComputedStyle(e).color.slice(4, -1).split(",").map(Number))"""
CUT = "all => all.filter(m => m.getBoundingClientRect().right > innerWidth).length"
SHOWN = "all => all.map(s => s.checkVisibility() && s.clientHeight)"


@pytest.mark.parametrize("name", [*pages(), "search", "genindex"])
def test_the_page_opens_fits_and_can_be_read(visit: Visit, name: str):
    for theme, (size, rules) in THEMES.items():
        visit.page.set_viewport_size(SIZES[size])
        visit.page.emulate_media(color_scheme=theme)
        page = visit.open(name, until="networkidle")
        assert overflow(page) <= 0
        assert page.locator("h1:visible").count() == 1
        page.wait_for_function(REACHED)
        if name in ARTICLES:
            assert page.evaluate(BYTES) < FIRST_VISIT
            assert all((ink < 128) == (theme == "light") for ink in inks(page))
        if name != CODE:
            page.evaluate(PLAIN_CODE)
        assert faults_of_access(page, rules=rules) == []
        if name in ARTICLES:
            can_be_printed(page, name)


def inks(page: Page) -> list[float]:
    """How bright text, formulas, code and headings of the article are, from 0 to 255."""
    return [0.3 * red + 0.59 * green + 0.11 * blue for red, green, blue in page.evaluate(INKS)]


def can_be_printed(page: Page, name: str) -> None:
    """Dark on white in either theme, formulas whole, solutions open, figures that stand still."""
    figures = page.locator("div.cell_output:has(.unmasked-live) > img")
    assert not any(figure.is_visible() for figure in figures.all())
    page.set_viewport_size(SIZES["paper"])
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert max(inks(page)) < 140
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background in {"rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"}
    assert page.locator("math[display=block]").evaluate_all(CUT) == 0
    for figure in figures.all():
        page.wait_for_function("img => img.naturalWidth > 0", arg=figure.element_handle())
        assert figure.is_visible()
    assert page.locator(".cell_output .unmasked-live:visible").count() == 0
    if name in CHAPTERS:
        solutions = page.locator("details.solution pre").evaluate_all(SHOWN)
        assert all(solutions)
        assert len(solutions) >= 3 or name.startswith(("book/00", "book/15"))
        assert page.locator("details.hide:not(.solution)").count() > 0
        assert page.locator("details.hide:not(.solution):visible").count() == 0
    page.emulate_media(media="screen")


def test_without_scripts_the_page_says_so_and_keeps_its_figures(browser: Browser, site: str):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site}/book/live.html")
    assert page.locator("noscript p").is_visible()
    page.goto(f"{site}/book/01_masks.html")
    assert page.locator("div.cell_output:has(.unmasked-live) > img").is_visible()
    context.close()
