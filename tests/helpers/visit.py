"""Opens a page of the book, or a live element alone, and collects whatever goes wrong on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page

SIZES = {
    "wide": {"width": 1280, "height": 900},
    "narrow": {"width": 390, "height": 844},
    "paper": {"width": 718, "height": 1000},  # what A4 leaves between its margins
}
COLOURS = ["color-contrast", "link-in-text-block"]  # these rules take longer than all the others
# Every visit draws the same random numbers (a multiplicative generator).
SEEDED = (
    "{ let state = 20; Math.random = () => (state = (state * 48271) % 2147483647) / 2147483647; }"
)
STYLE = """<style>body { background: #fff; color: #222832; margin: 1rem }
@media (prefers-color-scheme: dark) { body { background: #14181e; color: #ced6dd } }</style>"""


class Visit:
    """Holds a page, and whatever goes wrong or leaves the site while it is open."""

    def __init__(self, page: Page, site: str) -> None:
        self.page, self.site = page, site
        self.faults: list[str] = []
        own = (site, "data:", "blob:")
        page.add_init_script(SEEDED)
        page.on("console", lambda m: self.fault(m.text, m.type in {"error", "warning"}))
        page.on("pageerror", lambda error: self.fault(f"script: {error}"))
        page.on("requestfailed", lambda r: self.fault(r.url, r.failure != "net::ERR_ABORTED"))
        page.on("request", lambda r: self.fault(f"left for {r.url}", not r.url.startswith(own)))
        page.on("response", lambda r: self.fault(f"{r.status}: {r.url}", r.status >= 400))

    def fault(self, text: str, happened: bool = True) -> None:
        self.faults += [text] * happened

    def open(self, name: str, state: str = "") -> Page:
        self.page.goto(f"{self.site}/{name}.html{state}")
        return self.page


@contextmanager
def visiting(browser: Browser, site: str) -> Iterator[Visit]:
    with browser.new_page(viewport=SIZES["wide"], reduced_motion="reduce") as page:
        visit = Visit(page, site)
        yield visit
        assert visit.faults == []


@contextmanager
def alone(browser: Browser, html: str) -> Iterator[Locator]:
    """Opens a live element without the book around it; it may ask for nothing."""
    with visiting(browser, "nowhere:") as visit:
        visit.page.set_content(f'<!doctype html><html lang="en"><title>alone</title>{STYLE}{html}')
        yield visit.page.locator(".unmasked-live, .unmasked-view")


def faults_of_access(page: Page, where: Any = None, **options: Any) -> list[str]:
    """Returns what axe finds in the page or a part of it."""
    options = {"preload": False, "resultTypes": ["violations"], **options}
    found = Axe().run(page, where, options=options).response["violations"]
    return [f"{v['id']}: {v['nodes'][0]['html']} {v['nodes'][0]['any']}" for v in found]


def faults_on_a_phone(page: Page, part: str = ".unmasked-live") -> list[str]:
    """Returns what axe finds in both themes, and whether the page is wider than the screen."""
    page.set_viewport_size(SIZES["narrow"])
    faults = ["wider than the screen"] * (overflow(page) > 0)
    for theme, rules in (("light", {}), ("dark", {"runOnly": COLOURS})):
        page.emulate_media(color_scheme=theme)
        faults += faults_of_access(page, part, **rules)
    return faults


def overflow(page: Page) -> int:
    """Returns by how many pixels the page is wider than its window."""
    script = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    return page.evaluate(script)
