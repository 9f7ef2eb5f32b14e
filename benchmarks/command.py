"""How a script was called, as each record says; and what it says on its way."""

import sys
from collections.abc import Sequence
from pathlib import Path


def command(script: str, words: Sequence[str] | None = None) -> str:
    """As one types it in the repository; `script` is its `__file__`."""
    given = sys.argv[1:] if words is None else words
    return " ".join(["python", f"benchmarks/{Path(script).name}", *given])


def say(text: str) -> None:
    """Beside the result, which goes to standard output."""
    print(text, file=sys.stderr, flush=True)
