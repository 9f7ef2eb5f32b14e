"""The book as files: its pages, its notebooks, where it is built, where its repository is."""

from functools import cache

import nbformat
import yaml

from repository import ROOT
from repository import notebooks as files

BOOK = ROOT / "book"
HTML = ROOT / "_build/html"


def pages() -> list[str]:
    """The pages in reading order, such as "book/01_masks"."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    files = [contents["root"]]
    for part in contents["parts"]:
        for chapter in part["chapters"]:
            files += [page["file"] for page in (chapter, *chapter.get("sections", ()))]
    return files


def notebooks() -> list[str]:
    """The names of the chapters, such as "01_masks" or "deeper/lookalikes"."""
    return [str(path.relative_to(BOOK).with_suffix("")) for path in files()]


@cache
def notebook(name: str) -> nbformat.NotebookNode:
    return nbformat.read(BOOK / f"{name}.ipynb", as_version=4)


def code_cells(name: str) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook(name).cells if cell.cell_type == "code"]


def prose(name: str) -> str:
    """The Markdown of a page, be it a notebook or a Markdown file."""
    path = BOOK / f"{name}.md"
    if path.exists():
        return path.read_text(encoding="utf-8")
    cells = notebook(name).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
