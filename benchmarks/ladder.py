"""What each step of the recipe gives: English to German, trained shortly, one change at a time.

Example: python benchmarks/ladder.py --folder runs/ladder

Each rung keeps the changes of those below it. A rung whose folder has a model is not trained again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from translation import say, score
from unmasked.training.machine import machine
from unmasked.translator import CONFIG, Translator
from unmasked_book.records import RECORDS

PRESET = "multi30k-en-de"
BEGIN = {
    "data.vocabulary": 8000,
    "model.d_ff": 256,
    "model.norm": "post",
    "training.steps": 1500,
    "training.tokens": 2048,
    "training.schedule": "paper",
    "training.rate": "none",
    "training.warmup": 400,
    "training.precision": "float32",
}
RUNGS: dict[str, dict[str, Any]] = {
    "the paper's norm and schedule, 8,000 subwords": {},
    "bfloat16": {"training.precision": "bfloat16"},
    "pre-norm": {"model.norm": "pre"},
    "a rate that stays and cools down": {"training.schedule": "trapezoid", "training.rate": 4e-3},
    "4,000 subwords": {"data.vocabulary": 4000},
    "a feed-forward layer twice as wide": {"model.d_ff": 512},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="for the trained models")
    folder = parser.parse_args().folder
    changes, rungs = dict(BEGIN), []
    for number, (name, change) in enumerate(RUNGS.items()):
        changes |= change
        say(f"[{number + 1}/{len(RUNGS)}] {name}")
        rungs.append({"name": name, **climb(folder / str(number), changes)})
        result = {
            "machine": {
                **machine(),
                "command": " ".join(["python", "benchmarks/ladder.py", *sys.argv[1:]]),
            },
            "preset": PRESET,
            "rungs": rungs,
        }
        (RECORDS / "multi30k-ladder.json").write_text(json.dumps(result, indent=1) + "\n")


def climb(folder: Path, changes: dict[str, Any]) -> dict[str, Any]:
    words = ["train", "--preset", PRESET, "--out", str(folder), "--checkpoint-every", "100000"]
    for key, value in changes.items():
        words += ["--set", f"{key}={value}"]
    if not (folder / CONFIG).exists():
        subprocess.run([sys.executable, "-m", "unmasked", *words], check=True)
    translator = Translator.load(folder)
    rows = (folder / "history.csv").read_text().splitlines()
    seconds = float(rows[-1].split(",")[rows[0].split(",").index("seconds")])
    scores = {split: score(translator, split)["bleu"] for split in ("val", "test_2016_flickr")}
    parameters = translator.model.count_parameters()
    return {"set": dict(changes), "seconds": seconds, "parameters": parameters, "scores": scores}


if __name__ == "__main__":
    main()
