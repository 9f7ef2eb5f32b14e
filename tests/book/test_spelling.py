"""British English, and no typing errors, in all prose."""

import re
import subprocess
import sys
from importlib.resources import files

import pytest

from helpers.pages import ROOT, pages, prose

NAMES = [page.removeprefix("book/") for page in pages()]
OTHER_PROSE = sorted(path.name for path in ROOT.glob("*.md"))
FINE = "ist,oder,als,ein,fo,hund,mann,sie,unter,pinter"  # German, and names


def plain(text):
    """Without code, formulas, links' addresses, and emphasised (foreign or quoted) words."""
    text = re.sub(r"```.*?```|\$\$.*?\$\$", " ", text, flags=re.DOTALL)
    return re.sub(r"`[^`\n]*`|\$[^$\n]*\$|\]\([^)\s]*\)|https?://\S+|\*[^*\n]+\*", " ", text)


def misspelt(text, *options):
    command = [
        sys.executable,
        "-m",
        "codespell_lib",
        f"--ignore-words-list={FINE}",
        *options,
        "-",
    ]
    run = subprocess.run(command, input=plain(text), capture_output=True, text=True)
    return re.findall(r"\w[\w-]* ==> .*", run.stdout)


def source(name):
    return (ROOT / name).read_text(encoding="utf-8") if name.endswith(".md") else prose(name)


@pytest.mark.parametrize("name", NAMES + OTHER_PROSE)
def test_words_are_spelt_right(name):
    assert misspelt(source(name), "--builtin=clear,rare") == []


@pytest.fixture(scope="session")
def american(tmp_path_factory):
    """codespell's list of British words, turned around: American → British."""
    lines = files("codespell_lib").joinpath("data/dictionary_en-GB_to_en-US.txt").read_text("utf-8")
    pairs = [line.split("->") for line in lines.splitlines() if "," not in line]
    fine = {"practice", "license", "program", "meter", "inquiry", "disk", "tire", "check"}
    fine |= {"math", "story"}
    turned = {us.strip(): gb for gb, us in pairs if us.strip() not in fine}
    path = tmp_path_factory.mktemp("words") / "american.txt"
    path.write_text("".join(f"{us}->{gb}\n" for us, gb in turned.items()), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", NAMES + OTHER_PROSE)
def test_spelling_is_british(name, american):
    assert misspelt(source(name), f"--dictionary={american}") == []


def test_the_check_would_notice(american):
    assert misspelt("The color of teh mask is normalized.", f"--dictionary={american}") == [
        "color ==> colour",
        "normalized ==> normalised",
    ]
    assert misspelt("The colour of teh mask.", "--builtin=clear,rare") == ["teh ==> the"]
