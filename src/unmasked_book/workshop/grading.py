"""Grades every pupil's file in a folder, each in a process with limits of time and memory.

A piece is judged with our earlier ones beside it, so that one mistake costs one piece.
"""

import ast
import contextlib
import csv
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tqdm import tqdm

from unmasked import plain
from unmasked.errors import invalid
from unmasked_book.workshop.files import UnreadableError, named
from unmasked_book.workshop.reference import STEPS
from unmasked_book.workshop.wording import Verdict, examine

SECONDS, MEMORY = 120, 4 * 2**30  # seconds and bytes for each file


def grade(folder: Path, steps: tuple[str, ...] = STEPS, table: Path | None = None) -> None:
    """Prints marks of each pupil's file; writes a CSV with a row a file, another a row a piece."""
    files = sorted(folder.glob("**/*.py"))
    if not files:
        raise invalid("folder", "a folder with Python files", str(folder), "look into it")
    table = table or folder / "grades.csv"
    pieces = table.with_name(f"{table.stem}-pieces.csv")
    names = [cell(path.relative_to(folder)) for path in files]
    flags, width = flagged(files, names), max(map(len, names))
    with (
        table.open("w", newline="", encoding="utf-8", errors="backslashreplace") as opened,
        pieces.open("w", newline="", encoding="utf-8", errors="backslashreplace") as also,
    ):
        pupils, rows = csv.writer(opened), csv.writer(also)
        pupils.writerow(["file", "right", "of", *steps, "flags"])
        rows.writerow(["file", "step", "right", "kind", "message"])
        for name, path in zip(names, tqdm(files, desc="grading", disable=None), strict=True):
            marks, kinds, messages = zip(*alone(path, steps), strict=True)
            right = marks.count("✓")
            pupils.writerow([name, right, len(steps), *kinds, "; ".join(flags[name])])
            for step, mark, kind, message in zip(steps, marks, kinds, messages, strict=True):
                rows.writerow([name, step, int(mark == "✓"), kind, " ".join(message.split())])
            said = [text for mark, text in zip(marks, messages, strict=True) if mark == "✗"]
            first = "".join([*said, *flags[name]][:1]).partition("\n")[0]
            tqdm.write(f"{name:{width}}  {''.join(marks)} {right:2} of {len(steps)}  {first}")
    print(f"{table}: a row a file. {pieces}: every verdict.")


def cell(path: Path) -> str:
    """Returns a path as text that a spreadsheet does not take for a formula."""
    name = str(path).encode(errors="backslashreplace").decode()
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


def alone(path: Path, steps: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Returns each step's mark, kind and message, from another process.

    It answers in a file whose name the pupil's code is not told.
    """
    command = [sys.executable, "-P", "-m", "unmasked_book.workshop.grading", str(path), *steps]
    with TemporaryDirectory() as folder:
        answer = Path(folder) / "verdicts.json"
        try:
            ended = subprocess.run(
                command, input=str(answer), text=True, errors="replace", capture_output=True,
                timeout=SECONDS, check=False,
            )  # fmt: skip
            return [tuple(each) for each in json.loads(answer.read_text("utf-8"))]
        except subprocess.TimeoutExpired:
            said = f"stopped after {SECONDS} seconds"
        except (OSError, ValueError):
            last = "".join(ended.stderr.strip().splitlines()[-1:])
            said = f"its process ended with {ended.returncode}: {last}"
    return [("✗", "error", said) for _ in steps]


# --- What a teacher should look at --------------------------------------------------------------


def flagged(files: Iterable[Path], names: Iterable[str]) -> dict[str, list[str]]:
    """Says of each file whether it imports ours, or is equal to another but for names."""
    flags: dict[str, list[str]] = {name: [] for name in names}
    alike = {bare(parsed(Path(plain.__file__))): "unmasked/plain.py"}
    for name, path in zip(flags, files, strict=True):
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError, OSError):
            tree = parsed(path)
            ours = {"unmasked", "unmasked_book"} & {each.split(".")[0] for each in imported(tree)}
            flags[name] += [f"imports {each}" for each in sorted(ours)]
            if (own := bare(tree)) and (first := alike.setdefault(own, name)) != name:
                flags[name].append(f"equal to {first} but for names")
    return flags


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8-sig"))


def imported(tree: ast.Module) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def bare(tree: ast.Module) -> str:
    """Returns a file's pieces of the workshop without names, annotations and docstrings."""
    numbers: dict[str, str] = {}
    kinds = ast.FunctionDef | ast.ClassDef
    whole = [node for node in tree.body if isinstance(node, kinds) and node.name in STEPS]
    for node in (each for part in whole for each in ast.walk(part)):
        if isinstance(node, kinds) and ast.get_docstring(node):
            node.body = node.body[1:]
        for field in {"annotation", "returns"} & {*node._fields}:
            setattr(node, field, None)
        for field in {"id", "arg", "name"} & {*node._fields}:
            setattr(node, field, numbers.setdefault(getattr(node, field), str(len(numbers))))
    return "".join(map(ast.dump, whole))


# --- In the other process -----------------------------------------------------------------------


def judged(mine: Any, step: str) -> Verdict:
    """Examines a piece with our earlier ones in the place of the pupil's."""
    earlier = {name: getattr(plain, name) for name in STEPS[: STEPS.index(step)]}
    kept = {name: mine[name] for name in earlier if name in mine}
    mine.update(earlier)
    verdict = examine(step, mine.get(step))
    mine.update(kept)
    return verdict


def kind(verdict: Verdict) -> str:
    if verdict.waiting:
        return "not begun"
    return "right" if verdict.right else "named" if verdict.mistakes else "wrong"


if __name__ == "__main__":
    answer = Path(sys.stdin.read())
    with contextlib.suppress(ImportError, OSError):  # Windows knows no such limit
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    try:
        mine = named(sys.argv[1])
        verdicts = [judged(mine, step) for step in sys.argv[2:]]
        found = [(each.message[0], kind(each), each.message[2:]) for each in verdicts]
    except UnreadableError as error:
        found = [("✗", "error", str(error)) for _ in sys.argv[2:]]
    answer.write_text(json.dumps(found), "utf-8")
