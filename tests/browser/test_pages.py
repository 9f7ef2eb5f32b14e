"""Every page in a real browser: both themes, two widths, no fault, nothing fetched from outside."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from pages import pages
from visit import SIZES, Visit

# What the theme does and we cannot mend without replacing its scripts, each with its reason.
THEMES_OWN = {
    "region": "the theme's skip link and its search dialogue stand outside of all landmarks",
}
FIRST_VISIT = 1.5e6  # bytes, figures aside


@pytest.mark.parametrize("name", pages())
def test_the_page_opens_fits_and_is_accessible(visit: Visit, name: str):
    page = visit.open(name)
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0
    assert page.locator(".bd-article h1").first.is_visible()
    found = Axe().run(page, options={"preload": False}).response["violations"]
    ours = [violation for violation in found if violation["id"] not in THEMES_OWN]
    faults = [f"{v['id']}: {v['nodes'][0]['html']} {v['nodes'][0]['any']}" for v in ours]
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


@pytest.mark.parametrize("name", pages())
def test_text_and_formulas_stand_out_from_the_page(visit: Visit, theme: str, name: str):
    """What is written in the article is dark on light or light on dark."""
    page = visit.open(name)
    colours = page.evaluate(
        "['.bd-article p', '.bd-article math', '.bd-article pre span'].map(s => "
        "document.querySelector(s)).filter(Boolean).map(e => getComputedStyle(e).color)"
    )
    for colour in colours:
        red, green, blue = (int(part) for part in colour[4:-1].split(","))
        brightness = 0.3 * red + 0.59 * green + 0.11 * blue
        assert brightness < 128 if theme == "light" else brightness > 128


@pytest.mark.parametrize("theme", ["dark"])
@pytest.mark.parametrize("name", pages())
def test_print_is_black_on_white(visit: Visit, name: str):
    page = visit.open(name)
    page.emulate_media(media="print", color_scheme="light")
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") in {
        "rgb(255, 255, 255)",
        "rgba(0, 0, 0, 0)",
    }
    assert len(page.pdf()) > 10_000
