"""The page about the five documents: every erratum with its tests, every claim with its outcome."""

import re
import runpy

import pytest

from helpers.pages import BOOK, ROOT, notebook, prose
from unmasked_book import recorded
from unmasked_book.documents import DOCUMENTS
from unmasked_book.experiments import verdicts

find = runpy.run_path(str(BOOK / "_ext/named.py"))["find"]
PAGE = prose("documents")
NAMES = ["PyTorch walkthrough", "source reading", "valid-lengths notebook", "paper notes"]
NAMES.append("NumPy walkthrough")
LINKS = r"(?:\[\d+, [^]]+\]\(\d\d_\w+\.ipynb(?:#[\w-]+)?\)(?:; )?)+"
NUMBER = r"\d+(?:[.,]\d+)*"


def section(title):
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def rows(text):
    """The cells of each row of a table, its head aside."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines[1:]]


def named(kind, text=PAGE):
    return re.findall(rf"\{{{kind}\}}`([^`]+)`", text)


ERRATA = [row for name in NAMES for row in rows(section(f"The {name}"))]
CLAIMS = rows(section("Claims we measured"))
SYSTEMS = rows(section("What they build, and where it is here"))


@pytest.mark.parametrize(
    ("kind", "name"), sorted({(kind, name) for kind in ("source", "test") for name in named(kind)})
)
def test_every_name_leads_to_a_line(kind, name):
    path, line = find(ROOT, kind, name)
    text = (ROOT / path).read_text(encoding="utf-8").splitlines()[line - 1]
    assert re.match(rf"\s*(def |class )?{name.split('.')[-1]}\b", text)


def test_every_erratum_is_linked_and_nothing_else_is():
    file = ROOT / "tests/unmasked_book/test_errata.py"
    have = re.findall(
        r"^def (test_erratum_\d\d\w*)", file.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(named("test", " ".join(row[-1] for row in ERRATA))) == sorted(have)


def test_each_number_has_a_row_with_a_chapter_and_its_own_tests():
    assert sorted(int(row[0]) for row in ERRATA) == list(range(1, 24))
    for number, happens, chapters, tests in ERRATA:
        assert len(happens) > 80
        assert re.fullmatch(LINKS, chapters)
        assert ", ".join(f"{{test}}`{name}`" for name in named("test", tests)) == tests
        assert all(t.startswith(f"test_erratum_{int(number):02}_") for t in named("test", tests))


OUTCOMES = ["by-length", "copying", "squared", "small-data", "root-of-width", "heads"]
OUTCOMES += ["positions", "beyond", "warm-up"]  # then what is measured in other chapters


@pytest.mark.parametrize(("claim", "row"), list(zip(OUTCOMES, CLAIMS, strict=False)))
def test_what_came_out_is_what_the_recorded_runs_say(claim, row):
    if claim == "squared":
        scaling = recorded("cpu")["scaling"]
        verdict = verdicts.squared(scaling, scaling["lengths"])
    else:
        verdict = verdicts.VERDICTS[claim](recorded(f"claim-{claim}")["rows"])
    said = re.search(r"not tested|(not )?confirmed( with a condition)?", row[-1], re.IGNORECASE)
    assert said[0].lower() == verdict.word
    chapter = str(notebook("14_claims").cells)
    assert {*re.findall(NUMBER, row[-1])} <= {*re.findall(NUMBER, chapter)}


def test_each_claim_says_whose_it_is_and_where_it_is_measured():
    assert {*verdicts.VERDICTS, "squared"} == {*OUTCOMES}
    assert len(CLAIMS) == len(OUTCOMES) + 3
    for claim, who, where, _ in CLAIMS:
        assert len(claim) > 40
        assert {*re.sub(r" \(.*?\)", "", who).split(", ")} <= {*NAMES}
        assert re.fullmatch(LINKS, where)


def test_everything_that_they_build_has_chapters_code_and_tests():
    assert len(NAMES) == len(DOCUMENTS)
    whose = [re.match(r"\*\*(.+?)\.\*\*", row[0])[1] for row in SYSTEMS]
    assert list(dict.fromkeys(whose)) == [name[0].upper() + name[1:] for name in NAMES]
    for built, code, tests in SYSTEMS:
        assert re.search(rf" → {LINKS}$", built)
        assert ", ".join(f"{{source}}`{name}`" for name in named("source", code)) == code
        assert ", ".join(f"{{test}}`{name}`" for name in named("test", tests)) == tests


def test_a_link_to_a_heading_says_where_it_leads():
    for title, anchor in re.findall(r"\[\d+, ([^]]+)\]\(\d\d_\w+\.ipynb#([\w-]+)\)", PAGE):
        assert re.sub(r"[^\w -]", "", title).replace(" ", "-").lower() == anchor


def test_the_map_and_the_front_page_lead_to_it():
    assert "](documents.md)" in prose("map")
    assert "](documents.md)" in prose("intro")
