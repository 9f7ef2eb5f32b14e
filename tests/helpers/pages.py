"""The book as files: its pages, its notebooks, where it is built, where its repository is."""

import tomllib
from functools import cache
from pathlib import Path

import nbformat
import yaml

ROOT = Path(__file__).parents[2]
BOOK = ROOT / "book"
HTML = ROOT / "_build/html"


def repository() -> str:
    """The address that pyproject.toml states."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["urls"]["Repository"]


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
    paths = [*BOOK.glob("*.ipynb"), *BOOK.glob("[!.]*/*.ipynb")]
    return sorted(str(path.relative_to(BOOK).with_suffix("")) for path in paths)


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
