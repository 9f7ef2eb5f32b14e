"""Reads a reader's functions and classes from a file, or from the cells of a notebook."""

import ast
import inspect
import linecache
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from unmasked_book.workshop.limits import EndlessError, within
from unmasked_book.workshop.reference import STEPS, lines_of
from unmasked_book.workshop.wording import SECONDS, place

NAME = "a_readers_file"
UNFINISHED = Path(__file__).with_name("unfinished.txt")
Pieces = Any  # a dictionary, such as globals(); a module; or the path of a file


class UnreadableError(ValueError):
    """An UnreadableError says in words why a reader's file cannot be run."""


def named(pieces: Pieces) -> Mapping[str, Any]:
    if isinstance(pieces, str | Path):
        pieces = loaded(Path(pieces))
    return vars(pieces) if isinstance(pieces, ModuleType) else pieces


def loaded(path: Path) -> ModuleType:
    """Runs a Python file and returns its module; raises UnreadableError if that fails."""
    if not path.is_file():
        raise UnreadableError(f"there is no file {path}. `unmasked workshop start` makes one")
    try:
        source = path.read_text("utf-8-sig")
        code = compile(source, str(path), "exec")
    except SyntaxError as error:
        line = f"in line {error.lineno}: `{(error.text or '').strip()}`"
        raise UnreadableError(f"{path.name} cannot be read: {error.msg}, {line}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # no UTF-8; nested too deeply
        what = f"{error}" or type(error).__name__
        raise UnreadableError(f"{path.name} cannot be read: {what}") from None
    module = sys.modules[NAME] = ModuleType(NAME)  # dataclasses look for their module there
    module.__file__ = str(path)
    linecache.checkcache(str(path))
    try:
        with within(SECONDS):
            exec(code, vars(module))
    except EndlessError as error:
        raise UnreadableError(f"{path.name} was stopped after {error}{place(error)}") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        what = f"{type(error).__name__}: {error}{place(error)}"
        raise UnreadableError(f"{path.name} stops with {what}") from None
    return module


def collected(pieces: Mapping[str, Any]) -> str:
    """Joins the notebook cells that define the reader's functions and classes into one source."""
    cells: dict[str, list[str]] = {}
    for step in STEPS:
        piece: Any = pieces.get(step)  # a class in a notebook knows no file, but its forward does
        code = getattr(inspect.unwrap(getattr(piece, "forward", piece)), "__code__", None)
        if code is not None:
            cells.setdefault(code.co_filename, linecache.getlines(code.co_filename))
    head, parts = UNFINISHED.read_text("utf-8").split("\n\n\ndef ", 1)[0], []
    for source in map("".join, cells.values()):
        for node in ast.parse(source).body:
            text = lines_of(source, node)
            if isinstance(node, ast.Import | ast.ImportFrom):
                head += f"\n{text}" * (text not in head)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign):
                parts.append(text)
    return "\n\n\n".join([head, *parts]) + "\n"
