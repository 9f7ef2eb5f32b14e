"""The installed source, for a notebook to show: what the reader sees is what runs."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from unmasked.errors import invalid

SRC = Path(__file__).parents[1]  # both packages stand here, in a checkout and when installed
PACKAGES = ("unmasked", "unmasked_book")


class Source:
    """Python source that a notebook shows highlighted and anything else as plain text."""

    def __init__(self, code: str, language: str = "python") -> None:
        self.code, self.language = code, language

    def _repr_markdown_(self) -> str:
        return f"```{self.language}\n{self.code}\n```"

    def __repr__(self) -> str:
        return self.code


def show(*objects: Callable[..., Any] | type | ModuleType) -> Source:
    """The source of functions, classes, methods or files, each under the name of its file."""
    blocks = []
    for given in objects:
        thing: Any = given
        try:
            thing = inspect.unwrap(thing)
            lines = inspect.getsource(thing).rstrip()
            path = Path(inspect.getsourcefile(thing) or "?")
            if path.name == "<string>":  # of exec; Python 3.13 shows the source of `python -c`
                raise OSError
        except (TypeError, OSError):
            fix = "name the thing itself: show(causal_mask)"
            expected = "a function, class, method or module written in Python"
            raise invalid("show", expected, type(thing).__name__, fix) from None
        blocks.append(f"# {name_of(path)}\n\n{textwrap.dedent(lines)}")
    return Source("\n\n\n".join(blocks))


def name_of(path: Path) -> str:
    """As in the repository, if the file is in one of the packages; else the file's own name."""
    inside = path.relative_to(SRC) if path.is_relative_to(SRC) else path
    return f"src/{inside.as_posix()}" if inside.parts[0] in PACKAGES else path.name
