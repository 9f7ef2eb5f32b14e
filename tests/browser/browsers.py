"""The browsers of the tests, as the system has them installed."""

import shutil

from playwright.sync_api import Browser, Playwright

OPTIONS = ["--no-sandbox", "--disable-quic", "--disable-background-networking"]


def launch(playwright: Playwright) -> Browser:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    assert path, "no browser: install Chromium (Debian, Ubuntu: apt-get install chromium)"
    return playwright.chromium.launch(executable_path=path, args=OPTIONS)
