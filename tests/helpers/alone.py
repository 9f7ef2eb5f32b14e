"""A live element alone on a page, without the book around it."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Locator

from unmasked_book.live.explore import Explorable

INK = {"light": ("#ffffff", "#222832"), "dark": ("#14181e", "#ced6dd")}  # paper and ink


@contextmanager
def alone(
    browser: Browser, explorable: Explorable, width: int = 800, theme: str = "light"
) -> Iterator[Locator]:
    """The element, after its figure; at the end nothing must have gone wrong or been asked for."""
    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme=theme, reduced_motion="reduce"
    )
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda m: faults.append(m.text) if m.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("request", lambda request: faults.append(f"asked for {request.url}"))
    paper, ink = INK[theme]
    page.set_content(
        f'<!doctype html><html lang="en"><title>alone</title><style>body {{ background: {paper}; '
        f'color: {ink}; margin: 1rem }}</style><body><div><img alt="figure">{explorable.html()}'
    )
    yield page.locator(".unmasked-live")
    assert faults == []
    context.close()
