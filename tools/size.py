"""Counts the lines of each part of the repository, and the words and cells of each page.

Lines are those of Python, JavaScript, CSS and HTML that git knows. A page's words are those of its
text in view; exercises and folds are counted beside them.
"""

import json
import re
from collections import Counter
from pathlib import Path

from repository import ROOT, notebooks, text_files
from unmasked_book.tables import Table

CODE = ("py", "js", "css", "html")
TEXT = ("md", "toml", "yml", "ipynb", "txt", "cff", "in", "sh")
PARTS = ("src/unmasked", "src/unmasked_book", "tests", "benchmarks", "tools", "book/_ext")
FOLDED = {"hide-input", "hide-cell"}


def lines() -> Table:
    """Counts the lines of code and of other text: a row for each part."""
    counts: dict[str, Counter[str]] = {part: Counter() for part in (*PARTS, "elsewhere")}
    for line in text_files("--count"):
        name, _, number = line.rpartition(":")
        kind = Path(name).suffix[1:]
        part = next((part for part in PARTS if name.startswith(f"{part}/")), "elsewhere")
        if kind in (*CODE, *TEXT):
            counts[part][kind if kind in CODE else "text"] += int(number)
    counts["together"] = sum(counts.values(), Counter())
    rows = {}
    for part, found in counts.items():
        numbers = *(found[kind] for kind in CODE), found.total() - found["text"], found["text"]
        rows[part] = [f"{number:,}" for number in numbers]
    return Table("lines", [*CODE, "code", "text beside"], rows)


def pages() -> Table:
    """Counts words in view, in exercises and in folds, and cells: a row for each page."""
    rows = {}
    for path in notebooks():
        words, cells, exercises = Counter[str](), Counter[str](), False
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source, tags = "".join(cell["source"]), set(cell["metadata"].get("tags", ()))
            if cell["cell_type"] == "code":
                cells["hidden" if tags & FOLDED else "shown"] += 1
                continue
            for section in re.split(r"(?m)^(?=##? )", source):
                if heading := re.match(r"##? (.*)", section):
                    exercises = "exercise" in heading[1].lower()
                for part, folded in parts_of(section):
                    where = "folds" if folded else "exercises" if exercises else "view"
                    words[where] += len(part.split())
        counted = [words[where] for where in ("view", "exercises", "folds")]
        counted += [cells["shown"], cells["hidden"]]
        rows[path.stem] = [f"{number:,}" for number in counted]
    for path in sorted((ROOT / "book").glob("*.md")):
        rows[path.name] = [f"{len(path.read_text(encoding='utf-8').split()):,}", *[""] * 4]
    return Table("pages", ["words", "in exercises", "in folds", "cells", "hidden"], rows)


def parts_of(source: str) -> list[tuple[str, bool]]:
    """Splits a text at its folds: returns each part without markup, and whether it is folded."""
    pieces = re.split(r"(<details.*?</details>)", source, flags=re.DOTALL)
    return [(re.sub(r"<[^>]+>", " ", piece), piece.startswith("<details")) for piece in pieces]


if __name__ == "__main__":
    print(lines(), pages(), sep="\n\n")
