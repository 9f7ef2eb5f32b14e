"""Links between pages and files exist, and the repository is the same wherever it is named."""

import re

import pytest

from helpers.pages import BOOK, ROOT, pages, prose, repository
from repository import forms, tracked

NAMES = [page.removeprefix("book/") for page in pages()]


def links(text):
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", text)


@pytest.mark.parametrize("name", NAMES)
def test_links_to_pages_and_headings_exist(name):
    for link in links(prose(name)):
        if link.startswith("http"):
            continue
        target, _, heading = link.partition("#")
        assert not target or (BOOK / target).exists(), link
        if heading:
            other = target.rsplit(".", 1)[0] or name
            slugs = [
                re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
                for title in re.findall(r"^#+ (.*)", prose(other), re.MULTILINE)
            ]
            assert heading in slugs, link


@pytest.mark.parametrize("name", NAMES)
def test_links_into_the_repository_lead_to_files_that_exist(name):
    for link in links(prose(name)):
        if found := re.match(re.escape(repository()) + r"/(?:blob|tree)/main/([^#]+)", link):
            assert (ROOT / found[1]).exists(), link


def test_readme_links_exist_and_lead_there_from_anywhere():
    """It is also the package's page on the index, where a path leads nowhere."""
    raw = repository().replace("github.com", "raw.githubusercontent.com")
    ours = re.compile(rf"(?:{repository()}/(?:blob|tree)/main|{raw}/main)/([^#]+)")
    here = []
    for link in links((ROOT / "README.md").read_text(encoding="utf-8")):
        assert link.startswith("https://"), link
        if found := ours.match(link):
            assert (ROOT / found[1]).exists(), link
            here.append(link)
    assert len(here) > 12


NAMES_OTHERS = {ROOT / path for path in (
    "benchmarks/others.py", "benchmarks/README.md", "src/unmasked_book/records/others.json",
    "tests/benchmarks/test_others.py")}  # fmt: skip


CITED = {"karpathy.github.io/2019"}  # other people's pages


def test_the_repository_is_the_same_everywhere():
    """Whoever links to GitHub, Colab, Binder or the pages names one address."""
    slug, site = forms(repository())
    named = 0
    for path in tracked():
        if path in NAMES_OTHERS:
            continue
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"git\+https://github\.com/([\w.-]+/[\w.-]+)", text)
        found += re.findall(r"colab\.research\.google\.com/github/([\w.-]+/[\w.-]+)", text)
        found += re.findall(r"mybinder\.org/v2/gh/([\w.-]+/[\w.-]+)", text)
        found += re.findall(r"git clone https://github\.com/([\w.-]+/[\w.-]+)", text)
        found += re.findall(r"github\.com/([\w.-]+/[\w.-]+)/(?:blob|tree|actions|issues)\b", text)
        assert set(found) <= {slug, "OWNER/NAME"}, path
        assert set(re.findall(r"[\w-]+\.github\.io/[\w.-]+", text)) - CITED <= {site}, path
        named += slug in found
    assert named >= 5
