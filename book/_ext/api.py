"""Behind each docstring of the API page: its source, a test that uses it, and its chapter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from named import address_of, find
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)
CHAPTERS = {
    "masks": "01_masks",
    "positions": "02_positional_encoding",
    "attention": "03_attention",
    "feed_forward": "04_feed_forward",
    "encoder": "05_encoder",
    "decoder": "06_decoder",
    "transformer": "07_transformer",
    "config": "07_transformer",
    "interop": "07_transformer",
    "tokens": "10_translating",
    "loss": "08_training",
    "training": "08_training",
    "search": "09_decoding",
    "text": "10_translating",
    "translator": "10_translating",
    "evaluation": "10_translating",
    "plots": "11_looking_inside",
    "checking": "16_testing",
}


def chapter_of(module: str) -> str:
    """The page that explains what this module, seen from the package, holds."""
    return CHAPTERS.get(module) or CHAPTERS[module.partition(".")[0]]


@cache
def functions(path: Path) -> list[tuple[int, str]]:
    """Each test of a file: its line and its text."""
    text = path.read_text(encoding="utf-8")
    return [
        (node.lineno, ast.get_source_segment(text, node) or "")
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def tests_using(root: Path, module: str, name: str) -> Iterator[tuple[str, int]]:
    """File and line of the tests that name it; those that mirror its module come first."""
    mirrored = root / "tests/unmasked" / (module.replace(".", "/") + ".py")
    mirrored = mirrored.with_name(f"test_{mirrored.name}")
    others = sorted(root.glob("tests/**/test_*.py"), key=lambda path: path != mirrored)
    for path in others:
        for line, text in functions(path):
            if re.search(rf"\b{name}\b", text):
                yield path.relative_to(root).as_posix(), line


def links(app: Sphinx, _: str, name: str, *rest: Any) -> None:
    lines = rest[-1]
    root = Path(app.srcdir)
    path, line = find(root, "source", name)
    module = path.removeprefix("src/unmasked/").removesuffix(".py").replace("/", ".")
    last = name.rpartition(".")[2]
    found = next(tests_using(root, module, last), None)
    if found is None:
        logger.warning("api.md: no test names %s", name)
        return
    chapter = chapter_of(module)
    source, test = address_of(app.config, path, line), address_of(app.config, *found)
    lines += [
        "",
        f"`Source <{source}>`__ · `test <{test}>`__ · "
        f":doc:`chapter {int(chapter[:2])} <{chapter}>`",
        "",
    ]


def setup(app: Sphinx) -> dict[str, Any]:
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.napoleon")  # the lists of arguments
    app.connect("autodoc-process-docstring", links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
