"""What pictures, tests and models name in the book is there."""

import re
from itertools import pairwise

from helpers.pages import BOOK, ROOT, notebooks, prose
from unmasked_book.diagram import SITE, architecture
from unmasked_book.documents import DOCUMENTS


def test_every_block_of_the_architecture_leads_to_a_chapter():
    links = re.findall(r'href="([^"]+)"', architecture()._repr_html_())
    assert len(links) == 19
    chapters = {link.removeprefix(SITE).removesuffix(".html") for link in links}
    assert chapters == {name for name in notebooks() if "01" <= name < "08"}


def test_chapter_14_names_the_test_of_every_bug_and_every_erratum():
    chapter = (BOOK / "15_bugs.ipynb").read_text(encoding="utf-8")
    for kind, file in (("bug", "test_bugs.py"), ("erratum", "test_errata.py")):
        source = (ROOT / "tests/unmasked_book" / file).read_text(encoding="utf-8")
        tests = re.findall(rf"^def (test_{kind}_\d\d)", source, re.MULTILINE)
        assert set(re.findall(rf"`(test_{kind}_\d\d)`", chapter)) == set(tests)


def test_the_map_names_every_documents_model():
    text = prose("map")
    places = [text.find(f'"{name}"') for name in DOCUMENTS]
    assert min(places) > 0
    assert all(before < after for before, after in pairwise(places))
