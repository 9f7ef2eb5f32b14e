"""The long versions of chapter 13's experiments.

Example: python benchmarks/claims.py small-data

Each writes claim-NAME.json among the records: what was measured, by which command, on what and
when.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import torch
from tqdm import tqdm

from unmasked.training.machine import machine
from unmasked_book.experiments import EXPERIMENTS
from unmasked_book.records import RECORDS


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=EXPERIMENTS, help="the claim")
    parser.add_argument("--device", default="cpu", help="for by-length (cpu)")
    options = parser.parse_args()
    if options.device != "cpu" and options.name != "by-length":
        parser.error("--device is for by-length: the others measure no time")
    torch.set_num_threads(1)  # sums are added in one order
    command = " ".join(["python", "benchmarks/claims.py", *sys.argv[1:]])
    where = {"device": options.device} if options.name == "by-length" else {}
    began, rows = time.perf_counter(), list[Any]()
    for row in tqdm(EXPERIMENTS[options.name](**where), desc=options.name, unit="row"):
        rows.append(row)
    threads = max(row.get("threads", 1) for row in rows)
    result = {"machine": {**machine(options.device), "threads": threads, "command": command,
                          "minutes": round((time.perf_counter() - began) / 60, 1)},
              "rows": rows}  # fmt: skip
    path = RECORDS / f"claim-{options.name}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{len(rows)} rows are in {path}")


if __name__ == "__main__":
    main()
