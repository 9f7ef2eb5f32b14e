"""Cuts the eleven functions and classes out of `unmasked/plain.py` as text, and plants mistakes."""

import ast
import inspect
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any

from unmasked import plain

STEPS = (
    "padding_mask", "causal_mask", "positions", "attention", "MultiHeadAttention", "FeedForward",
    "EncoderLayer", "DecoderLayer", "Transformer", "generate", "loss",
)  # fmt: skip
Changes = tuple[tuple[str, str], ...]  # each replaces an old text by a new one


@cache
def text(step: str) -> str:
    """Returns the source text of the function or class `step` in plain.py."""
    return defined(inspect.getsource(plain), step)


def defined(source: str, name: str) -> str:
    """Returns the source text of a top-level function or class, or "" if there is none."""
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return lines_of(source, node)
    return ""


def lines_of(source: str, node: ast.stmt) -> str:
    """Returns the source text of a statement, with its decorators."""
    first = min(each.lineno for each in [node, *getattr(node, "decorator_list", [])])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def changed(step: str, changes: Changes) -> str:
    """Returns the source of `step` with texts replaced; each old one must occur exactly once."""
    lines = text(step)
    for old, new in changes:
        if lines.count(old) != 1:
            raise ValueError(f"{step} has {lines.count(old)} times {old!r}")
        lines = lines.replace(old, new)
    return lines


def piece(step: str, changes: Changes) -> Any:
    """Returns plain.py's function or class `step` with changes made in its source text."""
    names: dict[str, Any] = dict(vars(plain))
    exec(changed(step, changes), names)
    return names[step]


def whole(mistakes: Iterable[tuple[str, Changes]]) -> str:
    """Returns the source text of plain.py with changes in the named functions and classes."""
    source = inspect.getsource(plain)
    for step, changes in mistakes:
        source = source.replace(text(step), changed(step, changes))
    return source


def module(source: str) -> ModuleType:
    """Runs a changed source text of plain.py and returns its module."""
    made = ModuleType("mistaken")
    made.__file__ = plain.__file__  # from_pretrained looks for the models beside this file
    exec(source, vars(made))
    return made
