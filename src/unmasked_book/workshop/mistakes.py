"""The table of known mistakes: a line of mistakes.txt each."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from unmasked_book.workshop.reference import Changes


class Mistake(NamedTuple):
    step: str
    words: str  # they follow "your numbers are those of"
    changes: Changes


def known(step: str) -> tuple[Mistake, ...]:
    return table()[step]


@cache
def table() -> dict[str, tuple[Mistake, ...]]:
    """By step."""
    found: dict[str, tuple[Mistake, ...]] = {}
    names, step = {}, ""
    for line in Path(__file__).with_name("mistakes.txt").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            step = line.strip("[]")
        elif not step:
            name, value = line.split(" = ", 1)
            names["{" + name + "}"] = value
        else:
            words, *changes = line.split(" ‖ ")
            mistake = Mistake(step, words, tuple(change(each, names) for each in changes))
            found[step] = (*found.get(step, ()), mistake)
    return found


def change(written: str, names: dict[str, str]) -> tuple[str, str]:
    for name, value in names.items():
        written = written.replace(name, value)
    written = written.replace("⏎⁴", "\n    ").replace("⏎", "\n        ")
    old, new = written.split("→")
    return old.strip(), new.strip()
