"""Every page in a real browser: both themes, two widths, no fault, nothing fetched from outside."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from pages import pages
from playwright.sync_api import Page
from visit import SIZES, Visit

FIRST_VISIT = 1.5e6  # bytes, figures aside


EVERY = pytest.mark.parametrize("name", [*pages(), "search", "genindex"])
ARTICLES = set(pages())


@EVERY
def test_the_page_opens_and_fits_and_its_text_stands_out(visit: Visit, theme: str, name: str):
    """What is written in the article is dark on light or light on dark."""
    page = visit.open(name)
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0
    assert page.locator("h1:visible").count() == 1
    for brightness in inks(page) if name in ARTICLES else ():
        assert brightness < 128 if theme == "light" else brightness > 128


@pytest.mark.parametrize(("theme", "size"), [("light", SIZES["wide"]), ("dark", SIZES["narrow"])])
@EVERY
def test_the_page_is_accessible(visit: Visit, name: str):
    """Both themes and both widths, in pairs: axe takes seconds."""
    found = Axe().run(visit.open(name), options={"preload": False}).response["violations"]
    faults = [f"{v['id']}: {v['nodes'][0]['html']} {v['nodes'][0]['any']}" for v in found]
    assert faults == []


@pytest.mark.parametrize("size", [SIZES["wide"]])
@pytest.mark.parametrize("theme", ["light"])
@pytest.mark.parametrize("name", pages())
def test_a_first_visit_is_light(visit: Visit, name: str):
    page = visit.open(name)
    weights = page.evaluate(
        "performance.getEntriesByType('resource').filter(e => !e.name.includes('/_images/'))"
        ".map(e => e.encodedBodySize)"
    )
    document = page.evaluate("performance.getEntriesByType('navigation')[0].encodedBodySize")
    assert sum(weights) + document < FIRST_VISIT


@pytest.mark.parametrize("size", [SIZES["wide"]])
@pytest.mark.parametrize("name", pages())
def test_paper_is_white_and_ink_is_dark_in_either_theme(visit: Visit, name: str):
    page = visit.open(name)
    page.emulate_media(media="print")
    assert max(inks(page)) < 140
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background in {"rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"}


def inks(page: Page) -> list[float]:
    """How bright text, formulas, code and headings of the article are, from 0 to 255."""
    colours = page.evaluate(
        "['p', 'math', 'pre span', 'h2', 'td'].map(s => document.querySelector('.bd-article ' + s))"
        ".filter(Boolean).map(e => getComputedStyle(e).color)"
    )
    parts = [[int(part) for part in colour[4:-1].split(",")] for colour in colours]
    return [0.3 * red + 0.59 * green + 0.11 * blue for red, green, blue in parts]
