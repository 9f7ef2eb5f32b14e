"""Tests that the README's code prints what it shows, and that its scores are recorded."""

import contextlib
import io
import re

import pytest

from repository import ROOT
from unmasked_book import recorded

README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
TEXT = re.findall(r"```text\n(.*?)```", README, re.DOTALL)


def test_what_is_shown_is_printed():
    """A block ends with what it prints, unless that follows as a block of text."""
    names = {"__name__": "readme"}
    for code, printed in zip(CODE, ["", "", TEXT[0]], strict=True):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, names)
        assert out.getvalue() == (printed or code.splitlines()[-1].removeprefix("# ") + "\n")


@pytest.mark.parametrize(("name", "direction"), [("de-en", "German to"), ("en-de", "English to")])
def test_the_scores_are_the_recorded_ones(name, direction):
    score = recorded(f"multi30k-{name}")["float16"]["test_2016_flickr"]["beam 5"]
    assert re.search(rf"{score:.2f} from {direction}", README)
