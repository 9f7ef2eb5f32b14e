"""For teachers: every file of a folder, each in a process of its own with limits."""

import contextlib
import csv
import io
import multiprocessing
from pathlib import Path

from tqdm import tqdm

from unmasked.errors import invalid
from unmasked_book.workshop.files import UnreadableError, named
from unmasked_book.workshop.reference import STEPS
from unmasked_book.workshop.verdicts import examine

SECONDS, MEMORY = 120, 4 * 2**30  # of each file


def grade(folder: Path, steps: tuple[str, ...] = STEPS, table: Path | None = None) -> None:
    """Prints a row a file, and writes a row a file and step into a CSV."""
    files = sorted(folder.glob("**/*.py"))
    if not files:
        raise invalid("folder", "a folder with Python files", str(folder), "look into it")
    table = table or folder / "grades.csv"
    width = max(len(str(path.relative_to(folder))) for path in files)
    with table.open("w", newline="", encoding="utf-8") as opened:
        rows = csv.writer(opened)
        rows.writerow(["file", "step", "right", "message"])
        for path in tqdm(files, desc="grading", disable=None):
            name, found = str(path.relative_to(folder)), alone(path, steps)
            marks, said = "", found.get("file", "")
            for step in steps:
                verdict = found.get(step, "✗" + said)
                mark, message = verdict[0], verdict[1:]
                rows.writerow([name, step, int(mark == "✓"), message.replace("\n", " ").strip()])
                marks += mark
                said = said or message * (mark == "✗")
            first = said.splitlines()[0].strip() if said else ""
            tqdm.write(f"{name:{width}}  {marks} {marks.count('✓'):2} of {len(steps)}  {first}")
    print(f"{table}: every verdict.")


def alone(path: Path, steps: tuple[str, ...]) -> dict[str, str]:
    """What is said of each step of a file, or what became of its process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        try:
            return pool.apply_async(one, (path, steps)).get(SECONDS)
        except multiprocessing.TimeoutError:
            return {"file": f"stopped after {SECONDS} seconds, or it ended its process"}


def one(path: Path, steps: tuple[str, ...]) -> dict[str, str]:
    limit_memory()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            mine = named(path)
    except UnreadableError as error:
        return {"file": str(error)}
    return {step: examine(step, mine.get(step)).message for step in steps}


def limit_memory() -> None:
    """So much beyond what is in use already; on Windows there is no such limit."""
    with contextlib.suppress(ImportError, OSError):
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
