"""How a script was called, as each record says; and what it says on its way."""

import sys
from pathlib import Path


def command() -> str:
    """As one types it in the repository."""
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def say(text: str) -> None:
    """Beside the result, which goes to standard output."""
    print(text, file=sys.stderr, flush=True)
