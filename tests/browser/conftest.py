"""A browser, and the built book behind a local address that it may ask, and no other."""

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, sync_playwright

from helpers.browsers import launch
from helpers.pages import HTML
from helpers.visit import Visit, visiting


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


@pytest.fixture
def visit(browser: Browser, site: str) -> Iterator[Visit]:
    with visiting(browser, site) as visit:
        yield visit
