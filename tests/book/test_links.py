"""Links between pages and files exist, and what is named elsewhere has its place in the book."""

import re
import runpy

import pytest

from helpers.pages import BOOK, ROOT, notebook, pages, prose, repository
from unmasked_book import recorded
from unmasked_book.diagram import SITE, architecture
from unmasked_book.experiments import verdicts

find = runpy.run_path(str(BOOK / "_ext/named.py"))["find"]
NAMES = [page.removeprefix("book/") for page in pages()]
SLUG = repository().removeprefix("https://github.com/")
RAW = f"https://raw.githubusercontent.com/{SLUG}/main"
OURS = re.compile(rf"(?:{repository()}/(?:blob|tree)/main|{RAW})/([^#]+)")


def links(text):
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", text)


def slug(title):
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def rows(text):
    """The cells of each row of a table, its head aside."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines[1:]]


def test_every_page_is_in_the_contents_once():
    files = [path.stem for kind in ("ipynb", "md") for path in BOOK.glob(f"*.{kind}")]
    assert sorted(NAMES) == sorted(files)


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_pages_headings_and_files_that_exist(name):
    for link in links(prose(name)):
        if link.startswith("http"):
            assert not (found := OURS.match(link)) or (ROOT / found[1]).exists(), link
            continue
        target, _, heading = link.partition("#")
        assert not target or (BOOK / target).exists(), link
        titles = re.findall(r"^#+ (.*)", prose(target.rsplit(".", 1)[0] or name), re.MULTILINE)
        assert not heading or heading in map(slug, titles), link


def test_readme_links_exist_and_lead_there_from_anywhere():
    """It is also the package's page on the index, where a path leads nowhere."""
    found = links((ROOT / "README.md").read_text(encoding="utf-8"))
    here = [match[1] for link in found if (match := OURS.match(link))]
    assert all(link.startswith("https://") for link in found)
    assert all((ROOT / path).exists() for path in here)
    assert len(here) > 12


# --- Names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["paper", "documents"])
def test_names_of_code_and_of_tests_lead_to_the_lines_that_define_them(name):
    for kind, each in re.findall(r"\{(source|test)\}`([^`]+)`", prose(name)):
        path, line = find(ROOT, kind, each)
        text = (ROOT / path).read_text(encoding="utf-8").splitlines()[line - 1]
        assert re.match(rf"\s*(def |class )?{each.split('.')[-1]}\b", text)


@pytest.mark.parametrize(
    ("kind", "name", "why"),
    [
        ("source", "masked.attention", "no file for 'masked.attention'"),
        ("source", "unmasked.attention.pair.result", "attention.py defines no 'pair.result'"),
        ("test", "test_that_it_is_right", "no tests are called 'test_that_it_is_right'"),
    ],
)
def test_a_name_that_does_not_exist_is_refused(kind, name, why):
    with pytest.raises(LookupError, match=why):
        find(ROOT, kind, name)


def test_every_block_of_the_architecture_leads_to_a_chapter():
    found = re.findall(r'href="([^"]+)"', architecture()._repr_html_())
    chapters = {link.removeprefix(SITE).removesuffix(".html") for link in found}
    assert len(found) == 19
    assert chapters == {name for name in NAMES if "01" <= name < "08"}


@pytest.mark.parametrize(("kind", "file"), [("bug", "bugs"), ("erratum", "errata")])
def test_chapter_15_names_the_test_of_every_bug_and_every_erratum(kind, file):
    source = (ROOT / f"tests/unmasked_book/test_{file}.py").read_text(encoding="utf-8")
    tests = {*re.findall(rf"^def (test_{kind}_\d\d)", source, re.MULTILINE)}
    assert {*re.findall(rf"`(test_{kind}_\d\d)`", prose("15_bugs"))} == tests


# --- The page about the five documents ------------------------------------------------------------

ERRATA = [row for row in rows(prose("documents")) if row[0].isdigit()]
CLAIMS = rows(prose("documents").partition("## Claims we measured\n")[2].partition("\n## ")[0])
OUTCOMES = ["by-length", "copying", "squared", "small-data", "root-of-width", "heads"]
OUTCOMES += ["positions", "beyond", "warm-up"]  # then what is measured in other chapters


def test_every_erratum_has_a_row_with_its_own_tests():
    assert sorted(int(row[0]) for row in ERRATA) == list(range(1, 24))
    source = (ROOT / "tests/unmasked_book/test_errata.py").read_text(encoding="utf-8")
    named = [(int(row[0]), name) for row in ERRATA for name in re.findall(r"`(test_\w+)`", row[-1])]
    assert all(name.startswith(f"test_erratum_{number:02}_") for number, name in named)
    have = re.findall(r"^def (test_erratum_\d\d\w*)", source, re.MULTILINE)
    assert sorted(name for _, name in named) == sorted(have)


@pytest.mark.parametrize(("claim", "row"), list(zip(OUTCOMES, CLAIMS, strict=False)))
def test_what_came_out_is_what_the_recorded_runs_say(claim, row):
    if claim == "squared":
        scaling = recorded("cpu")["scaling"]
        verdict = verdicts.squared(scaling, scaling["lengths"])
    else:
        verdict = verdicts.VERDICTS[claim](recorded(f"claim-{claim}")["rows"])
    said = re.search(r"not tested|(not )?confirmed( with a condition)?", row[-1], re.IGNORECASE)
    assert said[0].lower() == verdict.word
    number = r"\d+(?:[.,]\d+)*"
    chapter = str(notebook("14_claims").cells)
    assert {*re.findall(number, row[-1])} <= {*re.findall(number, chapter)}
