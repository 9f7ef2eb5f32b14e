"""The whole book on paper: cover, contents, numbers, and links that stay in the file."""

import unicodedata

import pytest
from pypdf import PdfReader

import pdf


@pytest.fixture(scope="module")
def book(browser, tmp_path_factory):
    names = ["book/06_decoder", "book/notation", pdf.INDEX]
    parts = pdf.printed(browser, names)
    path = tmp_path_factory.mktemp("pdf") / "book.pdf"
    pdf.joined(browser, parts).write(path)
    return parts, PdfReader(path)


def text_of(page):
    return unicodedata.normalize("NFKC", page.extract_text()).rstrip()  # "fi" is one letter there


def test_the_contents_name_every_section_with_its_page(book):
    parts, whole = book
    text = text_of(whole.pages[1])
    assert "Contents" in text
    for heading in (each for part in parts for each in part.headings if each.deep < 2):
        assert heading.title in text
        page = text_of(whole.pages[2 + heading.page])
        assert heading.title.split()[0] in page
        assert page.startswith(f"{heading.page + 1}\n")


def test_links_to_pages_of_the_book_lead_to_pages_of_the_file(book):
    parts, whole = book
    links = [link.get_object() for page in whole.pages for link in page.get("/Annots", [])]
    addresses = [str(link["/A"]["/URI"]) for link in links if "/URI" in link.get("/A", {})]
    assert not [each for each in addresses if "/06_decoder.html" in each]
    pages = [page.indirect_reference.idnum for page in whole.pages]
    places = [link["/Dest"] for link in links if isinstance(link.get("/Dest"), list)]
    goals = [pages.index(place[0].idnum) for place in places]
    assert 2 + len(parts[0].pdf.pages) in goals  # the notation, from the contents


def test_bookmarks_and_labels_are_those_of_the_pages(book):
    parts, whole = book
    top = [entry.title for entry in whole.outline if not isinstance(entry, list)]
    assert top == [part.headings[0].title for part in parts]
    assert top[1:] == ["Notation and conventions", "Index"]
    assert whole.page_labels[:4] == ["i", "ii", "1", "2"]
