"""A visit to the built book, at a size, that notes whatever goes wrong on the way."""

from collections.abc import Sequence
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Request

SIZES = {"wide": (1280, 900), "narrow": (390, 844)}
# What the page leaves to chance comes out the same in every visit (a multiplicative generator).
SEEDED = (
    "{ let state = 20; Math.random = () => (state = (state * 48271) % 2147483647) / 2147483647; }"
)


def left(request: Request) -> bool:
    """Whether it was given up because the reader went to another page."""
    return request.failure == "net::ERR_ABORTED"


def faults_of_access(page: Page, part: str | None = None, rules: Sequence[str] = ()) -> list[str]:
    """What axe finds in the page, or in the part that a selector names."""
    options: dict[str, Any] = {"preload": False, "resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = list(rules)
    found = Axe().run(page, part, options=options).response["violations"]
    return [f"{v['id']}: {v['nodes'][0]['html']} {v['nodes'][0]['any']}" for v in found]


def overflow(page: Page) -> int:
    """By how much the page is wider than its window."""
    script = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    return page.evaluate(script)


class Visit:
    """A page, and whatever went wrong or away from the site while it was open."""

    def __init__(self, page: Page, site: str) -> None:
        self.page, self.site = page, site
        self.faults: list[str] = []
        page.add_init_script(SEEDED)
        page.on("console", lambda m: self.fault(m.text, m.type in {"error", "warning"}))
        page.on("pageerror", lambda error: self.fault(f"script: {error}"))
        page.on("requestfailed", lambda r: self.fault(f"failed: {r.url}", not left(r)))
        page.on("request", lambda r: self.fault(f"left the site: {r.url}", not self.own(r.url)))
        page.on("response", lambda r: self.fault(f"{r.status}: {r.url}", r.status >= 400))

    def own(self, url: str) -> bool:
        return url.startswith((self.site, "data:", "blob:"))

    def fault(self, text: str, happened: bool = True) -> None:
        if happened:
            self.faults.append(text)

    def open(self, name: str) -> Page:
        self.page.goto(f"{self.site}/{name}.html", wait_until="networkidle")
        return self.page
