"""Grades every pupil's file in a folder, each in a process with limits of time and memory."""

import contextlib
import csv
import json
import subprocess
import sys
from pathlib import Path

from tqdm import tqdm

from unmasked.errors import invalid
from unmasked_book.workshop.files import UnreadableError, named
from unmasked_book.workshop.reference import STEPS
from unmasked_book.workshop.wording import examine

SECONDS, MEMORY = 120, 4 * 2**30  # seconds and bytes for each file


def grade(folder: Path, steps: tuple[str, ...] = STEPS, table: Path | None = None) -> None:
    """Prints marks for each pupil's file; writes a CSV with a row for each function and class."""
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
    """Examines a file in another process; returns messages by step, or {"file": its error}."""
    command = [sys.executable, "-m", "unmasked_book.workshop.grading", str(path), *steps]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"file": f"stopped after {SECONDS} seconds"}
    try:
        return json.loads(ended.stdout.decode().splitlines()[-1])
    except (IndexError, ValueError):
        last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return {"file": f"its process ended with {ended.returncode}: {''.join(last)}"}


if __name__ == "__main__":
    with contextlib.suppress(ImportError, OSError):  # Windows knows no such limit
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    try:
        mine = named(sys.argv[1])
        verdicts = {step: examine(step, mine.get(step)).message for step in sys.argv[2:]}
    except UnreadableError as error:
        verdicts = {"file": str(error)}
    print("\n" + json.dumps(verdicts))
