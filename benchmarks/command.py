"""How a script was called: each record says by which command it is made again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def command(script: str, words: Sequence[str] | None = None) -> str:
    """As one types it in the repository; `script` is its `__file__`."""
    given = sys.argv[1:] if words is None else words
    return " ".join(["python", f"benchmarks/{Path(script).name}", *given])
