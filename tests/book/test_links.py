"""Links between pages and files exist, and the page of faults is made of their table."""

import re

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


def test_readme_links_exist_and_lead_there_from_anywhere():
    """It is also the package's page on the index, where a path leads nowhere."""
    found = links((ROOT / "README.md").read_text(encoding="utf-8"))
    here = [match[1] for link in found if (match := OURS.match(link))]
    assert all(link.startswith("https://") for link in found)
    assert all((ROOT / path).exists() for path in here)


def test_the_page_of_faults_is_the_table():
    assert prose("faults").endswith(f"\n\n{listed()}\n")
