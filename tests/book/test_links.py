"""Tests that links lead somewhere, and that the page of faults shows the table of faults."""

import re
import tomllib

import pytest

from helpers.pages import BOOK, ROOT, notebooks, pages, prose
from repository import current as repository
from unmasked_book.faulty import listed

NAMES = [page.removeprefix("book/") for page in pages()]
SLUG = repository().removeprefix("https://github.com/")
RAW = f"https://raw.githubusercontent.com/{SLUG}/main"
OURS = re.compile(rf"(?:{repository()}/(?:blob|tree)/main|{RAW})/([^#]+)")


def links(text):
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", text)


def slug(title):
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def test_every_page_is_in_the_contents_once():
    assert sorted(NAMES) == sorted([*notebooks(), *(path.stem for path in BOOK.glob("*.md"))])


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_pages_headings_and_files_that_exist(name):
    for link in links(prose(name)):
        if link.startswith("http"):
            assert not (found := OURS.match(link)) or (ROOT / found[1]).exists(), link
            continue
        target, _, heading = link.partition("#")
        page = (BOOK / name).parent.joinpath(target).resolve()
        assert page.exists(), link
        led_to = str(page.relative_to(BOOK).with_suffix("")) if target else name
        titles = re.findall(r"^#+ (.*)", prose(led_to), re.MULTILINE)
        assert not heading or heading in map(slug, titles), link


def test_the_readmes_links_lead_to_files_and_to_addresses_in_the_wheel():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all((ROOT / link).exists() for link in links(text) if not link.startswith("https://"))
    hook = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["metadata"]
    for change in hook["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    assert all(link.startswith("https://") for link in links(text))
    assert all((ROOT / found[1]).exists() for link in links(text) if (found := OURS.match(link)))


def test_the_page_of_faults_is_the_table():
    assert f"\n\n{listed()}\n\n" in prose("faults")
