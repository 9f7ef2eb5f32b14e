"""Finds the book's pages and notebooks, and where it is built."""

from functools import cache

import nbformat
import yaml

from repository import ROOT
from repository import notebooks as files

BOOK = ROOT / "book"
HTML = ROOT / "_build/html"


def pages() -> list[str]:
    """Returns the pages in reading order, such as "book/01_masks"."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter for part in contents["parts"] for chapter in part["chapters"]]
    pages = [page for chapter in chapters for page in (chapter, *chapter.get("sections", ()))]
    return [contents["root"], *(page["file"] for page in pages)]


def notebooks() -> list[str]:
    """Returns the names of the chapters, such as "01_masks" or "deeper/lookalikes"."""
    return [str(path.relative_to(BOOK).with_suffix("")) for path in files()]


@cache
def notebook(name: str) -> nbformat.NotebookNode:
    return nbformat.read(BOOK / f"{name}.ipynb", as_version=4)


def code_cells(name: str) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook(name).cells if cell.cell_type == "code"]


def prose(name: str) -> str:
    """Returns the Markdown of a page, be it a notebook or a Markdown file."""
    path = BOOK / f"{name}.md"
    if path.exists():
        return path.read_text(encoding="utf-8")
    cells = notebook(name).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
