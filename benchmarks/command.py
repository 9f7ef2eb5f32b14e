"""How a script was called: each record says by which command it is made again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def command(script: str, words: Sequence[str] | None = None) -> str:
    """As one types it in the repository; `script` is its `__file__`."""
    return " ".join(["python", f"benchmarks/{Path(script).name}", *(words or sys.argv[1:])])
