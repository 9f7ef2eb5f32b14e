"""Deep stacks with and without residuals, norms and warm-up: the long version of chapter 5.

Example: python benchmarks/depth.py --processes 2

Writes depth.json among the records. What is in it already is not run again. Every run has one
thread, so that its numbers do not depend on how many run beside it.
"""

from __future__ import annotations

import argparse
import time
from multiprocessing import get_context
from typing import Any

import torch
from tqdm import tqdm

from command import command
from unmasked.machine import machine
from unmasked_book.experiments.depth import named, trial, trials
from unmasked_book.records import RECORDS, record, recorded, recorded_names


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=1, help="runs side by side (1)")
    options = parser.parse_args()
    known = recorded("depth") if "depth" in recorded_names() else {"rows": [], "machine": {}}
    began, planned, rows = time.perf_counter(), trials(), known["rows"]
    missing = [each for each in planned if not any(named(each).items() <= row.items()
                                                   for row in known["rows"])]  # fmt: skip
    with get_context("spawn").Pool(options.processes, torch.set_num_threads, (1,)) as pool:
        for row in tqdm(pool.imap(trial, missing), total=len(missing), unit="row"):
            rows = sorted([*rows, row], key=lambda row: place(row, planned))
            minutes = (time.perf_counter() - began) / 60 + known["machine"].get("minutes", 0)
            about = {**machine("cpu"), "threads": 1, "command": command(__file__),
                     "minutes": round(minutes, 1)}  # fmt: skip
            record("depth", {"machine": about, "rows": rows})
    print(f"{len(rows)} rows are in {RECORDS / 'depth.json'}")


def place(row: dict[str, Any], planned: list[dict[str, Any]]) -> int:
    return next(i for i, each in enumerate(planned) if named(each).items() <= row.items())


if __name__ == "__main__":
    main()
