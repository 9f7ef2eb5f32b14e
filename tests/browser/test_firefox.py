"""The engine and the translator in Firefox, where it is installed."""

import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from helpers.browsers import Firefox
from helpers.comparisons import of_model
from helpers.pages import HTML

PATH = shutil.which("firefox-esr") or shutil.which("firefox")
pytestmark = pytest.mark.skipif(PATH is None, reason="Firefox is not installed")


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    firefox = Firefox(PATH, Path(tmp_path_factory.mktemp("profile")))
    yield firefox
    firefox.close()


def test_token_ids_logits_maps_and_greedy_translations_are_the_packages(firefox: Firefox):
    rows = list(islice(of_model(firefox, "de-en", every=4), 10))
    assert rows[-1]["what"] == "greedy translations"
    for row in rows:
        assert row.get("differ", row.get("largest")) <= row["limit"], row


@pytest.mark.parametrize("place", ["site", "file"])
def test_the_translator_follows_the_keys(firefox: Firefox, site: str, place: str):
    page = f"{site}/book/live.html" if place == "site" else (HTML / "book/live.html").as_uri()
    firefox.goto(page)
    firefox.click(".unmasked-live button")
    answers = ".unmasked-translation"
    firefox.wait_for_text(answers, "a black cat sleeps in a chair.")
    firefox.type(".unmasked-live textarea", "Eine Katze jagt eine Frau.")
    firefox.wait_for_text(answers, "a cat chases a woman.")
    firefox.click("input[name=encoderPositions]")
    firefox.wait_for_text(answers, "a cat chases a woman. | a woman chases a cat.")


def test_the_live_figures_open(firefox: Firefox, site: str):
    for chapter, name in (
        ("01_masks", "masks"),
        ("02_positional_encoding", "positions"),
        ("03_attention", "attention"),
        ("09_decoding", "beam"),
    ):
        firefox.goto(f"{site}/book/{chapter}.html")
        drawn = firefox.evaluate(
            "name => { const box = document.querySelector(`unmasked-${name}`);"
            " return [box.clientHeight, box.querySelectorAll('svg, table, button').length]; }",
            name,
        )
        assert drawn[0] > 200
        assert drawn[1] > 0
