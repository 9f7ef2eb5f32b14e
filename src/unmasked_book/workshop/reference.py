"""The eleven pieces of `unmasked/plain.py` as text, and what becomes of them with a mistake."""

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
Changes = tuple[tuple[str, str], ...]  # of a text: old, new


@cache
def text(step: str) -> str:
    """The lines of plain.py that define a piece."""
    return defined(inspect.getsource(plain), step)


def defined(source: str, name: str) -> str:
    """The lines that define a function or a class at the top of a file, with its decorators."""
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return lines_of(source, node)
    return ""


def lines_of(source: str, node: ast.stmt) -> str:
    """Of a statement, with its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def changed(step: str, changes: Changes) -> str:
    """A piece's text with each `old` replaced by its `new`; `old` occurs exactly once."""
    lines = text(step)
    for old, new in changes:
        if lines.count(old) != 1:
            raise ValueError(f"{step} has {lines.count(old)} times {old!r}")
        lines = lines.replace(old, new)
    return lines


def piece(step: str, changes: Changes) -> Any:
    """The function or class with a mistake in it; every other piece is as in plain.py."""
    names: dict[str, Any] = dict(vars(plain))
    exec(changed(step, changes), names)
    return names[step]


def whole(mistakes: Iterable[tuple[str, Changes]]) -> str:
    """The text of plain.py with mistakes in its pieces."""
    source = inspect.getsource(plain)
    for step, changes in mistakes:
        source = source.replace(text(step), changed(step, changes))
    return source


def module(source: str) -> ModuleType:
    """A changed plain.py, run."""
    made = ModuleType("mistaken")
    made.__file__ = plain.__file__  # from_pretrained finds the models beside it
    exec(source, vars(made))
    return made
