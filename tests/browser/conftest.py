"""Provides Chromium, and the built book at a local address, the only one that it may ask."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from helpers.browsers import launch
from helpers.pages import HTML
from helpers.visit import Visit, visiting

expect.set_options(timeout=30_000)  # a model is loaded, on a machine that others use too


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    assert (HTML / "index.html").exists(), "there is no built book: run `make book`"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=HTML)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        yield launch(playwright)


@pytest.fixture
def visit(browser: Browser, site: str) -> Iterator[Visit]:
    with visiting(browser, site) as visit:
        yield visit
