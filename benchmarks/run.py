"""Measures our package beside its peers in one process, and prints the table.

Example: python benchmarks/run.py --only train-256 greedy-256 --rounds 5
"""

import argparse
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers

from command import command, say
from timing import interleaved
from unmasked.machine import machine
from unmasked_book.records import record
from works import WORKS, Work

PEERS = ("transformers", "ctranslate2")


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    warnings.filterwarnings("ignore")  # what the peers say about themselves
    transformers.logging.set_verbosity_error()
    about = {**machine("cpu"), "command": command(__file__)}
    about |= {name: version(name) for name in PEERS}
    result: dict[str, Any] = {"machine": about, "works": []}
    for number, work in enumerate(chosen := [w for w in WORKS if wanted(w.name, options)], 1):
        say(f"[{number}/{len(chosen)}] {work.title}")
        result["works"].append(run(work, options))
    print(table(result))
    if options.record:
        say(f"recorded in {record(options.record, result)}")


def run(work: Work, options: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(0)
    contestants = work.prepare()
    rounds = options.rounds or work.rounds
    times = interleaved(contestants, rounds, "cpu")
    for name in contestants:
        say(f"    {seconds(times.median(name)):>9}  {name}")
    return {
        "name": work.name,
        "title": work.title,
        "times": {
            name: {
                "median": times.median(name),
                "quartiles": times.quartiles(name),
                "seconds": times.seconds[name],
            }
            for name in contestants
        },
        "goals": [
            {"ours": a, "theirs": b, "goal": goal, "measured": times.ratio(a, b)}
            for a, b, goal in work.goals
        ],
    }


def table(result: dict[str, Any]) -> str:
    """Each work with its contestants; the ratio is theirs to ours within one round."""
    where = result["machine"]
    versions = ", ".join(f"{name} {where[name]}" for name in ("torch", *PEERS))
    lines = [f"{where['date']} · {where['processor']}, {where['threads']} threads · {versions} · "
             f"`{where['command']}`", ""]  # fmt: skip
    lines += ["| work | contestant | median | quartiles |", "|---|---|--:|--:|"]
    for work in result["works"]:
        title = work["title"]
        for name, times in work["times"].items():
            low, high = times["quartiles"]
            lines.append(
                f"| {title} | {name} | {seconds(times['median'])} "
                f"| {seconds(low)} – {seconds(high)} |"
            )
            title = ""
    lines += ["", "| work | faster | than | goal | measured | |", "|---|---|---|--:|--:|---|"]
    for work in result["works"]:
        for goal in work["goals"]:
            reached = "reached" if goal["measured"] >= goal["goal"] else "missed"
            lines.append(
                f"| {work['title']} | {goal['ours']} | {goal['theirs']} | {goal['goal']:g} × "
                f"| {goal['measured']:.2f} × | {reached} |"
            )
    return "\n".join(lines)


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.1f} ms"


def wanted(name: str, options: argparse.Namespace) -> bool:
    if name == "bfloat16" and not has_bfloat16():
        say("bfloat16: this processor has no instructions for it, left out")
        return False
    return not options.only or name in options.only


def has_bfloat16() -> bool:
    path = Path("/proc/cpuinfo")
    return path.exists() and "bf16" in path.read_text()


def arguments() -> argparse.Namespace:
    names = [work.name for work in WORKS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=names, metavar="WORK", help=", ".join(names))
    parser.add_argument("--rounds", type=int, help="rounds for each work (default: its own)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--record", metavar="NAME", help="also write NAME.json among the records")
    options = parser.parse_args()
    if options.rounds is not None and options.rounds < 2:
        parser.error("--rounds: at least 2, for quartiles")
    return options


if __name__ == "__main__":
    main()
