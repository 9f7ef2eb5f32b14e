"""The translator and the live figures in Firefox, where it is installed."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.browsers import Firefox

PATH = shutil.which("firefox-esr") or shutil.which("firefox")
FIGURES = {"01_masks": "masks", "02_positional_encoding": "positions", "09_decoding": "beam"}
TYPE = """text => { const field = document.querySelector(".unmasked-live textarea");
field.value = text; field.dispatchEvent(new Event("input")); }"""
ANSWERS = "() => [...document.querySelectorAll('.unmasked-translation')].map(e => e.textContent)"
DRAWN = """name => { const box = document.querySelector(`unmasked-${name}`);
return box.clientHeight > 200 && box.querySelectorAll("svg, table, button").length > 0; }"""


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[Firefox]:
    firefox = Firefox(PATH, tmp_path)
    yield firefox
    firefox.close()


def says(firefox: Firefox, *texts: str) -> None:
    end = time.monotonic() + 60
    while (found := firefox.evaluate(ANSWERS)) != [*texts] and time.monotonic() < end:
        time.sleep(0.1)
    assert found == [*texts]


@pytest.mark.skipif(PATH is None, reason="Firefox is not installed")
def test_the_translator_follows_what_is_typed_and_the_live_figures_open(
    firefox: Firefox, site: str
):
    firefox.goto(f"{site}/book/live.html")
    firefox.click(".unmasked-live button")
    says(firefox, "a black cat sleeps in a chair.")
    firefox.evaluate(TYPE, "Eine Katze jagt eine Frau.")
    says(firefox, "a cat chases a woman.")
    firefox.click("[data-switch=encoderPositions]")
    says(firefox, "a cat chases a woman.", "a woman chases a cat.")
    for chapter, name in FIGURES.items():
        firefox.goto(f"{site}/book/{chapter}.html")
        assert firefox.evaluate(DRAWN, name)
