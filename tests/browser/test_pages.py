"""Every page in a real browser: both themes, two widths, no fault, nothing fetched from outside."""

import pytest
from playwright.sync_api import Page

from helpers.pages import pages
from helpers.visit import SIZES, Visit, faults_of_access, overflow

FIRST_VISIT = 1.4e6  # bytes, figures aside


EVERY = pytest.mark.parametrize("name", [*pages(), "search", "genindex"])
ARTICLES = set(pages())
NARROW_AND_DARK = (
    "color-contrast",
    "scrollable-region-focusable",
    "target-size",
)  # what may differ
CODE = "book/01_masks"  # where the words of code are looked at, too: they are coloured alike
PLAIN_CODE = "document.querySelectorAll('.highlight pre').forEach(e => e.textContent += '')"


REACHED = """() => [...document.querySelectorAll("pre, .pst-scrollable-table-container")].every(
    (box) => box.scrollWidth <= box.clientWidth || box.tabIndex >= 0)"""


@EVERY
@pytest.mark.parametrize(("theme", "size"), [("light", SIZES["wide"]), ("dark", SIZES["narrow"])])
def test_the_page_opens_fits_and_can_be_read(visit: Visit, theme: str, name: str):
    """In both themes, each at both widths; opened once a theme for all that is asked of it."""
    page = visit.open(name)
    if name in ARTICLES:
        if theme == "light":
            assert bytes_of_a_first_visit(page) < FIRST_VISIT
        can_be_seen_and_printed(page, theme)
    first = page.viewport_size
    for width, height in SIZES.values():
        page.set_viewport_size({"width": width, "height": height})
        assert overflow(page) <= 0
        assert page.locator("h1:visible").count() == 1
    page.set_viewport_size(first)
    page.wait_for_function(REACHED)  # the theme looks at the new width a moment later
    if name != CODE:
        page.evaluate(PLAIN_CODE)
    assert faults_of_access(page, rules=() if theme == "light" else NARROW_AND_DARK) == []


def can_be_seen_and_printed(page: Page, theme: str) -> None:
    for brightness in inks(page):  # dark on light or light on dark
        assert brightness < 128 if theme == "light" else brightness > 128
    page.emulate_media(media="print")
    assert max(inks(page)) < 140  # dark on paper, in either theme
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background in {"rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"}
    page.emulate_media(media="screen")


def bytes_of_a_first_visit(page: Page) -> int:
    weights = page.evaluate(
        "performance.getEntriesByType('resource').filter(e => !e.name.includes('/_images/'))"
        ".map(e => e.encodedBodySize)"
    )
    document = page.evaluate("performance.getEntriesByType('navigation')[0].encodedBodySize")
    return sum(weights) + document


def inks(page: Page) -> list[float]:
    """How bright text, formulas, code and headings of the article are, from 0 to 255."""
    colours = page.evaluate(
        "['p', 'math', 'pre span', 'h2', 'td'].map(s => document.querySelector('.bd-article ' + s))"
        ".filter(Boolean).map(e => getComputedStyle(e).color)"
    )
    parts = [[int(part) for part in colour[4:-1].split(",")] for colour in colours]
    return [0.3 * red + 0.59 * green + 0.11 * blue for red, green, blue in parts]
