"""The long versions of chapter 15's experiments.

Example: python benchmarks/claims.py heads --folder runs/claims --processes 2

Each writes claim-NAME.json among the records: what was measured, by which command, on what and
when. The rule that is there stays; the verdict is to be read from it again. Every training that is
finished is kept in the folder and not run again. One thread each.
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from command import command
from unmasked.machine import machine
from unmasked_book.experiments import EXPERIMENTS
from unmasked_book.experiments.procedure import Job
from unmasked_book.records import record, recorded


class Trainings:
    """Runs the trainings of an experiment, or finds them in its file."""

    def __init__(self, name: str, folder: Path, processes: int) -> None:
        self.name, self.path, self.lock = name, folder / f"{name}.jsonl", threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self.found = {line["job"]: line for line in self.stored()}
        self.pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
        self.bar = tqdm(desc=name, unit="training")

    def stored(self) -> Iterator[dict[str, Any]]:
        for text in self.path.read_text("utf-8").splitlines() if self.path.exists() else ():
            try:
                yield json.loads(text)
            except json.JSONDecodeError:  # the last line, if we were killed while writing it
                return

    def results(self, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        waiting = [(job, key, self.pool.submit(timed, self.name, job))
                   for job in jobs if (key := key_of(job)) not in self.found]  # fmt: skip
        for _, key, future in waiting:
            seconds, result = future.result()
            line = {"job": key, "seconds": round(seconds, 1), "result": result}
            with self.lock, self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                self.found[key] = line
                self.bar.update()
        return [self.found[key_of(job)]["result"] for job in jobs]


def key_of(job: Job) -> str:
    return json.dumps(job, sort_keys=True)


def timed(name: str, job: Job) -> tuple[float, dict[str, Any]]:
    torch.set_num_threads(1)  # sums are added in one order
    began = time.perf_counter()
    result = EXPERIMENTS[name].trial(**job)
    return time.perf_counter() - began, result


def trained(name: str, folder: Path, processes: int) -> tuple[list[dict[str, Any]], float]:
    """The experiment's rows, and how many minutes its trainings took, added up."""
    experiment, trainings = EXPERIMENTS[name], Trainings(name, folder, processes)
    with ThreadPoolExecutor(len(experiment.cases)) as cases:
        rows = cases.map(partial(experiment.row, results=trainings.results), experiment.cases)
    return list(rows), sum(line["seconds"] for line in trainings.found.values()) / 60


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=EXPERIMENTS, help="the claim")
    parser.add_argument("--folder", type=Path, default=Path("runs/claims"),
                        help="for what is finished (runs/claims)")  # fmt: skip
    parser.add_argument("--processes", type=int, default=1, help="trainings side by side (1)")
    options = parser.parse_args()
    rows, minutes = trained(options.name, options.folder, options.processes)
    about = {**machine("cpu"), "threads": 1, "command": command(__file__),
             "minutes": round(minutes, 1)}  # fmt: skip
    name = f"claim-{options.name}"
    kept = {key: value for key, value in recorded(name).items() if key in ("rule", "decided by")}
    print(f"{len(rows)} rows are in {record(name, {'machine': about, **kept, 'rows': rows})}")


if __name__ == "__main__":
    main()
