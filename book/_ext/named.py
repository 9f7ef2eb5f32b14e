"""Turns `{source}` and `{test}` names into links to the lines where they are defined.

    {source}`unmasked.masks.causal_mask`, {test}`test_causal_mask_row_by_row`

Lines move with every commit, so no page holds their numbers: they are looked up when the book is
built. A name that does not exist is an error of the build.
"""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

logger = logging.getLogger(__name__)
KINDS = ("source", "test")


def find(root: Path, kind: str, name: str) -> tuple[str, int]:
    """Returns the file, relative to the root, and the line where a name is defined.

    Code has a dotted name; a test is found by its own name, wherever it stands below `tests`.
    """
    if kind == "test":
        found = tests(root).get(name, [])
        if len(found) != 1:
            raise LookupError(f"{len(found) or 'no'} tests are called {name!r}")
        return found[0]
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        stem = "/".join(["src", *parts[:cut]])
        for path in (f"{stem}.py", f"{stem}/__init__.py"):
            if (root / path).is_file():
                return path, line_of(root / path, parts[cut:])
    raise LookupError(f"no file for {name!r}")


@cache
def tests(root: Path) -> dict[str, list[tuple[str, int]]]:
    """Returns the files and lines of all tests by their names."""
    found: dict[str, list[tuple[str, int]]] = {}
    for path in sorted(root.glob("tests/**/test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for name in defined(node):
                if name.startswith("test_"):
                    place = path.relative_to(root).as_posix(), node.lineno
                    found.setdefault(name, []).append(place)
    return found


def line_of(path: Path, names: list[str]) -> int:
    """Returns the line of a function, class, method, field or constant."""
    node: Any = ast.parse(path.read_text(encoding="utf-8"))
    for name in names:
        found = [inner for inner in getattr(node, "body", []) if name in defined(inner)]
        if not found:
            raise LookupError(f"{path.name} defines no {'.'.join(names)!r}")
        node = found[-1]
    return int(node.lineno)


def defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def address_of(config: Config, path: str, line: int) -> str:
    """Returns the address at which a line of the repository can be read."""
    options = config.html_theme_options
    return f"{options['repository_url']}/blob/{options['repository_branch']}/{path}#L{line}"


def breakable(name: str) -> nodes.literal:
    """Returns code that may break after a dot or an underscore, and before a capital."""
    first, *others = re.split(r"(?<=[._])|(?<=[a-z])(?=[A-Z])", name)
    shown = nodes.literal("", first)
    for part in others:
        shown += [nodes.raw("", "<wbr>", format="html"), nodes.Text(part)]
    return shown


class Named(SphinxRole):
    """Shows a name without the package, and links it."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        shown = self.text.split(".", 1)[-1]
        try:
            path, line = find(Path(self.env.srcdir), self.name, self.text)
        except LookupError as error:
            logger.warning("%s", error, location=self.get_location())
            return [nodes.literal("", shown)], []
        self.env.note_dependency(str(Path(self.env.srcdir, path)))
        address = address_of(self.config, path, line)
        return [nodes.reference("", "", breakable(shown), refuri=address)], []


def setup(app: Sphinx) -> dict[str, Any]:
    for kind in KINDS:
        app.add_role(kind, Named())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
