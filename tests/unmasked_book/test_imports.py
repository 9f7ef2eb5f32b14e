"""Two packages: the book needs the model, and the model does not know of the book."""

import ast
from pathlib import Path

import pytest

import unmasked
import unmasked_book

CORE, BOOK = (Path(package.__file__).parent for package in (unmasked, unmasked_book))
MODEL = {"masks", "positions", "attention", "feed_forward", "encoder", "decoder", "transformer"}


def imported(source, package):
    """The full names of all modules, and of what is taken from them, wherever it is imported.

    `package` is where the file stands: a dot before a name stands for it, two for the one above.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            module = ".".join([*above * (node.level > 0), *filter(None, [node.module])])
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
            if getattr(called, "id", called) in ("import_module", "__import__", "files"):
                yield str(node.args[0].value)


def of_book(name):
    return name.split(".")[0] == "unmasked_book"


def package_of(path):
    return ".".join(path.relative_to(CORE.parent).parent.parts)


@pytest.mark.parametrize(
    "source",
    [
        "import unmasked_book",
        "import torch, unmasked_book.records as kept",
        "from unmasked_book import show",
        "from unmasked_book.examples import spell",
        "def f():\n    from unmasked_book import show",
        "if TYPE_CHECKING:\n    from unmasked_book.heads import Links",
        "try:\n    import unmasked_book\nexcept ImportError: ...",
        "importlib.import_module('unmasked_book.records')",
        "__import__('unmasked_book')",
        "files('unmasked_book')",
    ],
)
def test_an_import_of_the_book_is_seen_wherever_it_stands(source):
    assert any(map(of_book, imported(source, "unmasked.data")))


def test_other_imports_are_not_taken_for_it():
    source = """
import unmasked.plots
from .vocabulary import Words
from ..config import BOS
from .. import errors
print("unmasked_book")
"""
    assert sorted(imported(source, "unmasked.data")) == [
        "unmasked.config.BOS",
        "unmasked.data.vocabulary.Words",
        "unmasked.errors",
        "unmasked.plots",
    ]


def test_the_model_imports_nothing_of_the_book():
    paths = sorted(CORE.rglob("*.py"))
    found = {
        path.relative_to(CORE).as_posix(): list(imported(path.read_text("utf-8"), package_of(path)))
        for path in paths
    }
    assert "unmasked.config.BOS" in found["masks.py"] + found["search.py"]  # they are read at all
    assert {file: names for file, names in found.items() if any(map(of_book, names))} == {}


def test_the_book_imports_the_model():
    names = [
        name
        for path in BOOK.rglob("*.py")
        for name in imported(path.read_text("utf-8"), package_of(path))
    ]
    assert "unmasked.transformer.Transformer" in names


def test_the_first_folder_is_small_enough_to_be_looked_through():
    files = {path.name for path in CORE.iterdir() if path.is_file()}
    assert {f"{name}.py" for name in MODEL} <= files
    assert len(files) <= 18, sorted(files)
