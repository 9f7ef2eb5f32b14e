"""A browser, and the built book behind a local address that it may ask, and no other."""

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, sync_playwright

from helpers.browsers import launch
from helpers.pages import HTML
from helpers.visit import SIZES, Visit


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing: the tests watch the requests themselves."""


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    assert (HTML / "index.html").exists(), "there is no built book: run `make book`"
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=HTML))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=SIZES)
def size(request: pytest.FixtureRequest) -> tuple[int, int]:
    return SIZES[request.param]


@pytest.fixture
def visit(browser: Browser, site: str, theme: str, size: tuple[int, int]) -> Iterator[Visit]:
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
    )
    visit = Visit(context.new_page(), site)
    yield visit
    assert visit.faults == []
    context.close()
