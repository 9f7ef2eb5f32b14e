"""The whole book prints with contents, numbers, and links that stay in the file."""

import unicodedata

from pypdf import PdfReader

import pdf


def text_of(page):
    return unicodedata.normalize("NFKC", page.extract_text()).rstrip()  # "fi" is one letter there


def test_contents_links_bookmarks_and_labels_are_those_of_the_pages(browser, tmp_path):
    parts = pdf.printed(browser, ["book/06_decoder", "book/notation", pdf.INDEX])
    pdf.joined(browser, parts).write(tmp_path / "book.pdf")
    book = PdfReader(tmp_path / "book.pdf")

    contents = text_of(book.pages[1])
    assert "Contents" in contents
    for heading in (each for part in parts for each in part.headings if each.deep < 2):
        assert heading.title in contents  # every section is there, with its page
        text = text_of(book.pages[2 + heading.page])
        assert heading.title.split()[0] in text
        assert text.startswith(f"{heading.page + 1}\n")

    links = [link.get_object() for page in book.pages for link in page.get("/Annots", [])]
    addresses = [str(link["/A"]["/URI"]) for link in links if "/URI" in link.get("/A", {})]
    assert not [each for each in addresses if "/06_decoder.html" in each]
    goals = [link["/Dest"][0].idnum for link in links if isinstance(link.get("/Dest"), list)]
    notation = book.pages[2 + len(parts[0].pdf.pages)]
    assert notation.indirect_reference.idnum in goals  # from the contents

    top = [entry.title for entry in book.outline if not isinstance(entry, list)]
    assert top == [parts[0].headings[0].title, "Notation and conventions", "Index"]
    assert book.page_labels[:4] == ["i", "ii", "1", "2"]
