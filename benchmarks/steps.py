"""Which step of chapter 16 finds which bug: small spellers, each with one bug, taken through them.

Example: python benchmarks/steps.py --processes 2

Writes steps.json among the records. One thread a training, so that its numbers do not depend on
how many run beside it. It takes ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from multiprocessing import get_context
from typing import Any

import torch
from tqdm import tqdm

from command import command
from unmasked.machine import machine
from unmasked_book.experiments.steps import CASES, trial
from unmasked_book.records import record

SEEDS = 3


def measured(job: tuple[str, int]) -> dict[str, Any]:
    case, seed = job
    return {"case": case, "seed": seed, **trial(case=case, seed=seed)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=1, help="trainings side by side (1)")
    options = parser.parse_args()
    began, jobs = time.perf_counter(), list(product(CASES, range(SEEDS)))
    with get_context("spawn").Pool(options.processes, torch.set_num_threads, (1,)) as pool:
        rows = list(tqdm(pool.imap(measured, jobs), total=len(jobs), unit="training"))
    minutes = (time.perf_counter() - began) / 60
    about = {**machine("cpu"), "threads": 1, "command": command(__file__),
             "minutes": round(minutes, 1)}  # fmt: skip
    path = record("steps", {"machine": about, "rows": rows})
    print(f"{len(rows)} rows are in {path}")


if __name__ == "__main__":
    main()
