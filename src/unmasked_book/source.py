"""The installed source, for a notebook to show: what the reader sees is what runs."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unmasked.errors import invalid

PACKAGE = Path(__file__).parent


class Source:
    """Python source that a notebook shows highlighted and anything else as plain text."""

    def __init__(self, code: str) -> None:
        self.code = code

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.code}\n```"

    def __repr__(self) -> str:
        return self.code


def show(*objects: Callable[..., Any] | type) -> Source:
    """The source of functions, classes or methods, each under the name of the file it is in."""
    blocks = []
    for thing in objects:
        try:
            lines = inspect.getsource(thing).rstrip()
            path = Path(inspect.getsourcefile(thing) or "?")
        except (TypeError, OSError):
            fix = "name the thing itself: show(causal_mask)"
            expected = "a function, class or method written in Python"
            raise invalid("show", expected, type(thing).__name__, fix) from None
        own = path.is_relative_to(PACKAGE)
        name = f"src/{path.relative_to(PACKAGE.parent).as_posix()}" if own else path.name
        blocks.append(f"# {name}\n\n{textwrap.dedent(lines)}")
    return Source("\n\n\n".join(blocks))
