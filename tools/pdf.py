"""Prints the whole book, as `make book` has built it, into one PDF.

Chromium prints each page; then the parts are joined, with a cover, a table of contents, page
numbers, bookmarks, and links that lead to pages of the same file.
"""

import html
import io
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote

from playwright.sync_api import Browser, sync_playwright
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, NameObject
from tqdm import tqdm

from release import stated
from repository import ROOT, current

sys.path.insert(0, str(ROOT / "tests"))

from helpers.browsers import launch
from helpers.pages import HTML, pages

TITLE, AUTHOR = "The Transformer, Unmasked", "The Transformer, Unmasked maintainers"
INDEX = "genindex"
TARGET = ROOT / "_build/unmasked.pdf"
PAPER = {"format": "A4", "print_background": True, "tagged": True,
         "margin": {"top": "18mm", "bottom": "20mm", "left": "17mm", "right": "17mm"}}  # fmt: skip
LOADED = """Promise.all([...document.images].map(image => {
    image.loading = "eager"; return image.decode().catch(() => 0) }))"""
HEADINGS = "all => all.map(e => [e.parentElement.id, e.textContent, e.tagName[1] - 1])"
# The pages' own tables of contents are hidden: the book has one. Each sheet bears its number.
PRINT = """
#jb-print-toc { display: none }
#jb-print-docs-body h1 { margin-bottom: 0.6em !important }
td, th { font-size: 80%; padding: 0.25em 0.4em !important }
@page { @bottom-center { content: counter(page); font: 9px sans-serif } }
"""
STYLE = """
body { color: #20262d; font: 11pt/1.5 "DejaVu Sans", sans-serif; margin: 0 }
h1 { font-size: 30pt; font-weight: normal; line-height: 1.2; margin: 60mm 0 10mm }
h2 { font-size: 20pt; font-weight: normal; margin: 0 0 6mm }
a { color: inherit; display: flex; text-decoration: none }
a i { border-bottom: 1px dotted #9aa3ad; flex: 1; margin: 0 0.4em 0.35em }
a b { font-weight: normal }
a.chapter { font-weight: bold; margin-top: 0.7em; break-after: avoid }
a.section { font-size: 9.5pt; padding-left: 1.2em }
"""


class Heading(NamedTuple):
    anchor: str
    title: str
    page: int  # counted from 0, of those with numbers
    deep: int  # 0: a chapter


class Part(NamedTuple):
    """A Part is a printed page of the book."""

    name: str  # such as book/01_masks
    pdf: PdfReader
    headings: list[Heading]
    places: dict[str, int]  # the page where each anchor stands


def printed(browser: Browser, names: Iterable[str]) -> list[Part]:
    parts, start = list[Part](), 0
    for name in names:
        with browser.new_page(color_scheme="light") as page:
            page.goto((HTML / f"{name}.html").as_uri(), wait_until="networkidle")
            page.evaluate(LOADED)
            page.add_style_tag(content=PRINT + f"html {{ counter-reset: page {start} }}")
            if name == INDEX:
                page.add_style_tag(content="h1 { display: block !important }")
            pdf = PdfReader(io.BytesIO(page.pdf(**PAPER)))
            found = page.locator("section > :is(h1, h2, h3, h4)").evaluate_all(HEADINGS)
        places = {
            anchor.removeprefix("/"): start + (pdf.get_destination_page_number(place) or 0)
            for anchor, place in pdf.named_destinations.items()
        }
        headings = [
            Heading(anchor, " ".join(text.rstrip("#").split()), places[anchor], deep)
            for anchor, text, deep in found
        ]
        parts.append(Part(name, pdf, headings or [Heading("", "Index", start, 0)], places))
        start += len(pdf.pages)
    return parts


def from_html(browser: Browser, body: str) -> PdfReader:
    with browser.new_page() as page:
        page.set_content(f'<html lang="en"><title>t</title><style>{STYLE}</style>{body}</html>')
        return PdfReader(io.BytesIO(page.pdf(**PAPER)))


def contents(parts: list[Part]) -> str:
    """Returns the HTML of the table of contents: chapters and sections, each with its page."""
    lines = ["<h2>Contents</h2>"]
    for part in parts:
        for each in (heading for heading in part.headings if heading.deep < 2):
            kind = "section" if each.deep else "chapter"
            lines.append(f'<a class="{kind}" href="file:///{part.name}.html#{each.anchor}">'
                         f"{html.escape(each.title)}<i></i><b>{each.page + 1}</b></a>")  # fmt: skip
    return "\n".join(lines)


def target(address: str, parts: list[Part]) -> int | None:
    """Returns the page of the book that an address leads to; None for another address."""
    path, _, anchor = unquote(address).partition("#")
    for part in parts:
        if path.endswith(f"/{part.name}.html"):
            return part.places.get(anchor, part.headings[0].page)
    return None


def link_within(book: PdfWriter, parts: list[Part], shift: int) -> None:
    """Turns links to pages of the book into links within the file, after `shift` first pages."""
    for page in book.pages:
        for reference in page.get("/Annots", []):
            link = reference.get_object()
            goal = target(str(link.get("/A", {}).get("/URI", "")), parts)
            if goal is not None:
                del link["/A"]
                there = [book.pages[goal + shift].indirect_reference, NameObject("/Fit")]
                link[NameObject("/Dest")] = ArrayObject(there)


def bookmarks(book: PdfWriter, parts: list[Part], shift: int) -> None:
    for part in parts:
        above: dict[int, Any] = {}
        for each in part.headings:
            above[each.deep] = book.add_outline_item(
                title=each.title, page_number=shift + each.page, parent=above.get(each.deep - 1)
            )


def joined(browser: Browser, parts: list[Part]) -> PdfWriter:
    """Joins cover, contents and pages; adds links, bookmarks and page numbers."""
    cover = (
        f"<h1>{TITLE}</h1><p>Version {stated()}</p><p>{current()}</p>"
        "<p>Text and figures: CC BY 4.0. Code: MIT.</p>"
    )
    front = [from_html(browser, cover), from_html(browser, contents(parts))]
    book = PdfWriter()
    for pdf in (*front, *(part.pdf for part in parts)):
        book.append(pdf, import_outline=False)
    shift = sum(len(pdf.pages) for pdf in front)
    link_within(book, parts, shift)
    bookmarks(book, parts, shift)
    book.set_page_label(0, shift - 1, style="/r")
    book.set_page_label(shift, len(book.pages) - 1, style="/D", start=1)
    book.add_metadata({"/Title": TITLE, "/Author": AUTHOR})
    return book


def main() -> None:
    if not (HTML / f"{INDEX}.html").exists():
        sys.exit(f"there is no book in {HTML}: run `make book`")
    with sync_playwright() as playwright:
        browser = launch(playwright)
        book = joined(browser, printed(browser, tqdm([*pages(), INDEX], unit="page")))
    book.compress_identical_objects()
    book.write(TARGET)
    length, size = len(book.pages), TARGET.stat().st_size / 2**20
    print(f"The book is at {TARGET.relative_to(ROOT)}: {length} pages, {size:.1f} MiB.")


if __name__ == "__main__":
    main()
