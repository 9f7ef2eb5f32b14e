"""Compares the book's engine with the package, in Chromium, and stores what the page shows.

Example: python tools/equality.py

Writes live-equality.json among the records. The browser tests make the same comparisons with some
of the captions, and fail where a difference is larger than allowed.
"""

import sys

from playwright.sync_api import sync_playwright
from tqdm import tqdm

from repository import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from helpers.browsers import launch
from helpers.comparisons import rows
from unmasked.machine import machine
from unmasked_book.records import record


def main() -> None:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        found = list(tqdm(rows(browser.new_page()), unit="row"))
        about = {**machine("cpu"), "browser": f"Chromium {browser.version.split('.')[0]}"}
    about |= {"threads": 1, "command": "python tools/equality.py"}
    path = record("live-equality", {"machine": about, "rows": found})
    wrong = [row for row in found if row.get("differ", row.get("largest")) > row["limit"]]
    print(f"{len(found)} comparisons are in {path}; {len(wrong)} failed")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
