"""What dropout gives against memorising: two values of it, German to English, longer runs.

Example: python benchmarks/dropout.py --folder runs/dropout --processes 2

Rules, written before the runs: everything is as in the recipe of the shipped model, but without
reversed batches, and in 3,000 updates, of which 300 are for warm-up. Dropout is 0.1 or 0.3, each
with the same seeds. Recorded are the cross-entropy on the validation set after every 100 updates,
that on the first 2,000 training sentences at the end (both without smoothing and dropout), and BLEU
of greedy search on the validation set, with a paired bootstrap. The last weights count, not the
best ones. The test set is not looked at. A run whose folder has a model is not trained again. Every
training has one thread.
"""

from __future__ import annotations

import argparse
import csv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from command import command
from ladder import train_once, validation
from translation import cross_entropy, say
from unmasked.evaluation import bleu, paired_bootstrap
from unmasked.machine import machine
from unmasked.translator import Translator
from unmasked_book.records import record

PRESET = "multi30k-de-en"
CHANGES = {"training.both_ways": 0.0, "training.steps": 3000, "training.warmup": 300}
DROPOUTS = (0.1, 0.3)
EVERY = 100


def trained(folder: Path, dropout: float, seed: int) -> dict[str, Any]:
    """One run: its curve, its scores, and what it wrote for the validation set."""
    options = CHANGES | {"model.dropout": dropout, "training.seed": seed}
    train_once(folder, PRESET, options, "--every", str(EVERY))
    translator = Translator.load(folder)
    target, source = validation()
    with (folder / "history.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["validation"]]
    curve = [[int(row["step"]), round(float(row["validation"]), 4)] for row in rows]
    written = translator.translate(source)
    return {
        "dropout": dropout,
        "seed": seed,
        "validation": curve,
        "seconds": round(float(rows[-1]["seconds"])),
        "train": cross_entropy(translator, "train"),
        "val": cross_entropy(translator, "val"),
        "bleu": round(bleu(written, target).score, 2),
        "written": written,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="for the trained models")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="(0 1)")
    parser.add_argument("--processes", type=int, default=1, help="runs side by side (1)")
    options = parser.parse_args()
    cases = [(dropout, seed) for seed in options.seeds for dropout in DROPOUTS]
    folders = [options.folder / f"{dropout}-{seed}" for dropout, seed in cases]
    with ThreadPoolExecutor(options.processes) as pool:
        runs = list(pool.map(trained, folders, *zip(*cases, strict=True)))
    target, _ = validation()
    written = {case: run.pop("written") for case, run in zip(cases, runs, strict=True)}
    low, high = DROPOUTS
    tests = [paired_bootstrap(written[low, s], written[high, s], target) for s in options.seeds]
    result = {
        "machine": {**machine("cpu"), "threads": 1, "command": command(__file__)},
        "preset": PRESET,
        "set": CHANGES,
        "runs": runs,
        "p": [round(test.p, 4) for test in tests],
    }
    say(f"recorded in {record('multi30k-dropout', result)}")


if __name__ == "__main__":
    main()
