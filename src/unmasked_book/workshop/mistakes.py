"""Reads mistakes.txt, the table of mistakes in plain.py that the workshop recognises."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from unmasked_book.workshop.reference import Changes


class Mistake(NamedTuple):
    step: str
    words: str  # they follow "with one mistake:"
    changes: Changes


@cache
def known(step: str) -> tuple[Mistake, ...]:
    found = (row for row in rows(Path(__file__).with_name("mistakes.txt")) if row[0] == step)
    return tuple(Mistake(step, words, tuple(map(change, more))) for _, (words, *more) in found)


def rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields (heading, cells) of each line in a table such as mistakes.txt, {NAME}s replaced."""
    names, heading = {}, ""
    for line in path.read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            heading = line.strip("[]")
        elif " ‖ " not in line:
            name, value = line.split(" = ", 1)
            names["{" + name + "}"] = value
        else:
            for name, value in names.items():
                line = line.replace(name, value)
            yield heading, line.split(" ‖ ")


def change(written: str) -> tuple[str, str]:
    written = written.replace("⏎⁴", "\n    ").replace("⏎", "\n        ")
    old, new = written.split("→")
    return old.strip(), new.strip()
