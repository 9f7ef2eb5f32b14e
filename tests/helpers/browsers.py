"""Starts Chromium as the system has it installed."""

import shutil
import sys

from playwright.sync_api import Browser, Playwright

# Chromium without its windows opens the same pages in half the time.
CHROMIUM = ("chromium-headless-shell", "chromium", "google-chrome")
OPTIONS = ["--no-sandbox", "--disable-quic", "--disable-background-networking"]


def launch(playwright: Playwright) -> Browser:
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if not path:
        sys.exit("no browser: install Chromium (Debian: apt-get install chromium-headless-shell)")
    return playwright.chromium.launch(executable_path=path, args=OPTIONS)
