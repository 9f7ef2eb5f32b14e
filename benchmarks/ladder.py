"""What each part of the recipe gives: English to German, trained shortly, one change at a time.

Example: python benchmarks/ladder.py --folder runs/ladder --processes 2

A rung with several rates is tried at each of them with the first seed; while the best, on the
validation set, is the lowest or the highest, the next one is tried too. The other seeds run at
the best. A rung without rates takes that of the rung it changes. The test set is not looked at.
A run whose folder has a model is not trained again. Every run has one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from command import command, say
from translation import words
from unmasked.evaluation import bleu, chrf, paired_bootstrap
from unmasked.machine import machine
from unmasked.storage.model import CONFIG
from unmasked.text.multi30k import multi30k
from unmasked.translator import Translator
from unmasked_book.records import record

PRESET = "multi30k-en-de"
SEEDS = (0, 1, 2)
START = {
    "data.vocabulary": 8000,
    "model.d_ff": 256,
    "training.steps": 750,
    "training.tokens": 2048,
    "training.warmup": 250,
    "training.both_ways": 0.0,
}


class Rung(NamedTuple):
    name: str
    below: str | None  # the rung that it changes and is compared with
    change: dict[str, Any]
    rates: tuple[float, ...] = ()


POST, PRE, COOL, WIDE = "post-norm", "pre-norm", "trapezoid", "a wider feed-forward layer"
RATES = (0.0005, 0.001, 0.002, 0.004)
RUNGS = (
    Rung(POST, None, {"model.norm": "post", "training.schedule": "paper"}, RATES),
    Rung(PRE, POST, {"model.norm": "pre"}, tuple(2 * rate for rate in RATES)),
    Rung(COOL, PRE, {"training.schedule": "trapezoid"}, tuple(2 * rate for rate in RATES)),
    Rung(WIDE, COOL, {"model.d_ff": 512}),
    Rung("4,000 subwords", WIDE, {"data.vocabulary": 4000}),
    Rung("both directions", WIDE, {"training.both_ways": 0.4}),
)


def number_below(rung: Rung) -> int | None:
    return next((i for i, other in enumerate(RUNGS) if other.name == rung.below), None)


class Run(NamedTuple):
    rung: int
    rate: float
    seed: int


def validation() -> tuple[list[str], list[str]]:
    """English and German: what every run is scored on."""
    german, english = (list(side) for side in zip(*multi30k("val"), strict=True))
    return english, german


def mean_words(texts: list[str]) -> float:
    return round(words(texts) / len(texts), 1)


class Ladder:
    def __init__(self, folder: Path, processes: int) -> None:
        self.folder = folder
        self.pool = ThreadPoolExecutor(processes)
        self.found: dict[Run, dict[str, Any]] = {}

    def climb(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        chosen: dict[str, float] = {}
        for number, rung in enumerate(RUNGS):
            rate = self.best_rate(number) if rung.rates else chosen[rung.below or ""]
            chosen[rung.name] = rate
            self.run(Run(number, rate, seed) for seed in SEEDS)
        for number, rung in enumerate(RUNGS):
            runs = [Run(number, chosen[rung.name], seed) for seed in SEEDS]
            below = number_below(rung)
            rows.append({
                "name": rung.name,
                "below": rung.below,
                "set": self.settings(number),
                "parameters": self.found[runs[0]]["parameters"],
                "rate": chosen[rung.name],
                "rates": {f"{run.rate}": found["bleu"] for run, found in sorted(self.found.items())
                          if run.rung == number and run.seed == SEEDS[0]},
                "bleu": [self.found[run]["bleu"] for run in runs],
                "chrf": [self.found[run]["chrf"] for run in runs],
                "words": [mean_words(self.found[run]["written"]) for run in runs],
                "seconds": [self.found[run]["seconds"] for run in runs],
                "p": [] if below is None else [self.compare(below, chosen, run) for run in runs],
            })  # fmt: skip
        return rows

    def best_rate(self, number: int) -> float:
        rates = list(RUNGS[number].rates)
        while True:
            self.run(Run(number, rate, SEEDS[0]) for rate in rates)
            best = max(rates, key=lambda rate: self.found[Run(number, rate, SEEDS[0])]["bleu"])
            if best == min(rates):
                rates.insert(0, best / 2)
            elif best == max(rates):
                rates.append(best * 2)
            else:
                return best

    def run(self, runs: Iterable[Run]) -> None:
        missing = [run for run in runs if run not in self.found]
        for run, found in zip(missing, self.pool.map(self.trained, missing), strict=True):
            self.found[run] = found

    def settings(self, number: int) -> dict[str, Any]:
        rung = RUNGS[number]
        below = number_below(rung)
        return (dict(START) if below is None else self.settings(below)) | rung.change

    def trained(self, run: Run) -> dict[str, Any]:
        """A run's scores on the validation set, greedy; it is kept beside its model."""
        folder = self.folder / f"{run.rung}-{run.rate}-{run.seed}"
        if (scores := folder / "scores.json").exists():
            return dict(json.loads(scores.read_text("utf-8")))
        options = self.settings(run.rung) | {"training.rate": run.rate, "training.seed": run.seed}
        train_once(folder, options)
        translator = Translator.load(folder)
        source, target = validation()
        written = translator.translate(source)
        rows = (folder / "history.csv").read_text("utf-8").splitlines()
        found = {
            "bleu": round(bleu(written, target).score, 2),
            "chrf": round(chrf(written, target).score, 2),
            "parameters": translator.model.count_parameters(),
            "seconds": round(float(rows[-1].split(",")[rows[0].split(",").index("seconds")])),
            "written": written,
        }
        say(f"{RUNGS[run.rung].name}, rate {run.rate}, seed {run.seed}: BLEU {found['bleu']}")
        scores.write_text(json.dumps(found), "utf-8")
        return found

    def compare(self, below: int, chosen: dict[str, float], run: Run) -> float:
        """The paired bootstrap's p, against the rung below with the same seed."""
        other = self.found[Run(below, chosen[RUNGS[below].name], run.seed)]
        _, target = validation()
        return round(paired_bootstrap(other["written"], self.found[run]["written"], target).p, 4)


def train_once(folder: Path, options: dict[str, Any]) -> None:
    """Trains with one thread, unless the folder has the model already; what was begun goes on."""
    if (folder / CONFIG).exists():
        return
    words = ["train", "--preset", PRESET, "--out", str(folder), "--quiet", "--resume"]
    for key, value in options.items():
        words += ["--set", f"{key}={value}"]
    say(f"training {folder.name}: " + ", ".join(f"{key}={value}" for key, value in options.items()))
    one = os.environ | {"OMP_NUM_THREADS": "1"}
    command_line = [sys.executable, "-m", "unmasked", *words]
    subprocess.run(command_line, check=True, env=one, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="for the trained models")
    parser.add_argument("--processes", type=int, default=1, help="runs side by side (1)")
    options = parser.parse_args()
    rungs = Ladder(options.folder, options.processes).climb()
    result = {
        "machine": {**machine("cpu"), "threads": 1, "command": command(__file__)},
        "preset": PRESET,
        "seeds": list(SEEDS),
        "rungs": rungs,
    }
    say(f"{len(rungs)} rungs are in {record('multi30k-ladder', result)}")


if __name__ == "__main__":
    main()
