"""Finds the lines of plain.py that compute what a box of the live figure shows.

`places.json` names for each box "function: how the line begins"; without a beginning, all lines of
the function. After "…" stand the lines that call them. ValueError stops the build if a beginning
fits no line or several, or a line has no box.
"""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path

from unmasked import plain

PLACES = Path(__file__).with_name("places.json")
NOT_FORWARD = {"loss", "renamed", "Transformer.from_pretrained"}  # and what makes a module
Line = tuple[int, str]


def lines_of_places() -> dict[str, tuple[list[Line], list[Line]]]:
    """Returns for each box of the live figure its lines in plain.py, and those that call them."""
    functions = lines_of_functions(inspect.getsource(plain))
    found = {}
    for place, wanted in json.loads(PLACES.read_text(encoding="utf-8")).items():
        end = wanted.index("…") if "…" in wanted else len(wanted)
        found[place] = (all_of(functions, wanted[:end]), all_of(functions, wanted[end + 1 :]))
    shown = {line for both in found.values() for lines in both for line in lines}
    for name in functions.keys() - NOT_FORWARD:
        for number, text in functions[name]:
            if (number, text) not in shown:
                raise ValueError(f"plain.py, line {number}: no box of the figure shows {text!r}")
    return found


def all_of(functions: dict[str, list[Line]], wanted: list[str]) -> list[Line]:
    return sorted({line for one in wanted for line in matching(functions, one)})


def lines_of_functions(source: str) -> dict[str, list[Line]]:
    """Returns each function's numbered lines, without `def`, docstring and blank lines."""
    texts, found = source.splitlines(), {}
    tree = ast.parse(source)
    classes = [(f"{node.name}.", node.body) for node in tree.body if isinstance(node, ast.ClassDef)]
    for prefix, body in [("", tree.body), *classes]:
        for node in body:
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                first = node.body[ast.get_docstring(node) is not None].lineno
                lines = enumerate(texts[first - 1 : node.end_lineno], first)
                stripped = [(number, text.strip()) for number, text in lines]
                found[prefix + node.name] = [line for line in stripped if line[1]]
    return found


def matching(functions: dict[str, list[Line]], wanted: str) -> list[Line]:
    name, _, beginning = wanted.partition(": ")
    lines = [line for line in functions.get(name, []) if line[1].startswith(beginning)]
    if len(lines) == 1 or (lines and not beginning):
        return lines
    raise ValueError(f"plain.py: {len(lines)} lines fit {wanted!r}, and one is expected")
