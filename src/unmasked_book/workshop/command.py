"""write the Transformer yourself and be told which mistake it is; grade; hunt for bugs"""

import argparse
import sys
from pathlib import Path

from unmasked.cli.options import command
from unmasked_book.workshop import grading, hunting, work
from unmasked_book.workshop.files import UNFINISHED, UnreadableError
from unmasked_book.workshop.reference import STEPS

FILE, HOW = Path("my_transformer.py"), "unmasked workshop try"


def main(words: list[str]) -> None:
    parser = command("workshop", "Grow one file into a Transformer.", "unmasked workshop start")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, about: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=about, description=about)

    start = action("start", "writes the unfinished file; one that is there stays as it is")
    attempt = action("try", "says how far the file is, and which mistake comes first")
    finish = action("finish", "trains the finished file on a toy language, about a minute")
    attempt.add_argument("--step", choices=STEPS, help="one piece alone")
    attempt.add_argument(
        "--train", action="store_true", help="draws the loss of what is there so far"
    )
    attempt.add_argument("--watch", action="store_true", help="again whenever the file is saved")
    finish.add_argument("--steps", type=int, default=900, help="of the training (900)")
    hint = action("hint", "a question; then where; then a line with a gap")
    hint.add_argument("step", choices=STEPS)
    hint.add_argument("number", nargs="?", type=int, default=1, choices=(1, 2, 3))
    solution = action("solution", "ours, beside yours where there is one")
    solution.add_argument("step", choices=STEPS)
    for each in (start, attempt, finish, solution):
        each.add_argument("file", nargs="?", type=Path, default=FILE, help=f"({FILE})")
    hunt = action("hunt", "writes a Transformer with a bug in it, and shows its symptoms")
    hunt.add_argument("file", nargs="?", type=Path, default=Path("hunted.py"), help="(hunted.py)")
    hunt.add_argument("--seed", type=int, default=1, help="which bug (1)")
    hunt.add_argument("--bugs", type=int, default=1, choices=(1, 2), help="how many (1)")
    grade = action("grade", "a row for each file of a folder, and all verdicts as a CSV")
    grade.add_argument("folder", type=Path)
    grade.add_argument(
        "--steps", nargs="+", choices=STEPS, default=STEPS, metavar="STEP", help="pieces (all)"
    )
    grade.add_argument("--csv", type=Path, help="(grades.csv, in the folder)")
    options = parser.parse_args(words)
    try:
        sys.exit(not run(options))
    except UnreadableError as error:
        raise ValueError(f"{error}.") from None


def run(options: argparse.Namespace) -> bool:
    """Runs the chosen subcommand; returns False if it finds a mistake in the reader's file."""
    match options.action:
        case "start":
            if options.file.exists():
                print(f"{options.file} is there already and stays as it is. {HOW} {options.file}")
            else:
                options.file.write_text(UNFINISHED.read_text("utf-8"), "utf-8")
                print(f"{options.file}: eleven pieces to write. After each: {HOW} {options.file}")
        case "try":
            given = options.file, options.step, options.train
            if not options.watch:
                return work.looked(*given)
            work.watched(*given)
        case "finish":
            translate = work.finish(options.file, options.steps, options.file.with_suffix(".pt"))
            if translate and sys.stdin.isatty():
                work.converse(translate)
            return translate is not None
        case "hint":
            work.hint(options.step, options.number, shell=True)
        case "solution":
            work.solution(options.step, options.file if options.file.exists() else None)
        case "hunt":
            hunting.hunt(options.seed, options.bugs, options.file)
        case "grade":
            grading.grade(options.folder, tuple(options.steps), options.csv)
    return True
