"""Fifty translations of the validation set, judged one by one.

Example: python benchmarks/judged.py sheet.tsv                  (writes what is to be judged)
         python benchmarks/judged.py first.tsv second.tsv       (records two judges' verdicts)

A judge's file has a line for each number of the sheet: the number, a verdict, and whether only the
picture could decide ("yes" or "no"). The record holds numbers and verdicts, and no sentence.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from pathlib import Path

import unmasked
from command import command
from unmasked.evaluation import bleu, chrf
from unmasked.machine import machine
from unmasked.text.multi30k import multi30k
from unmasked_book.records import record

# Decided before the first was judged; the first that fits, from the top.
RUBRIC = {
    "hallucinated": "it has a thing or an action for which the German gives no reason",
    "wrong": "who does what to whom, or where, is false, missing or not to be understood",
    "understandable": "the main content is there; "
    "a detail is false or missing, or a sentence broken",
    "right": "it says what the German says, in English that one could print",
}
SEED, COUNT, MODEL = 0, 50, "de-en"


def sheet() -> list[tuple[int, str, str, str]]:
    """Number in the validation set, German, reference, translation by the beam of five."""
    pairs = multi30k("val")
    numbers = sorted(random.Random(SEED).sample(range(len(pairs)), COUNT))
    german, english = zip(*(pairs[i] for i in numbers), strict=True)
    written = unmasked.load(MODEL).translate(german, beam_size=5)
    return list(zip(numbers, german, english, written, strict=True))


def verdicts(path: Path, numbers: list[int]) -> list[tuple[str, bool]]:
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line]
    if [int(line[0]) for line in lines] != numbers or {line[1] for line in lines} - RUBRIC.keys():
        raise SystemExit(
            f"{path}: expected the numbers of the sheet, each with a verdict of {[*RUBRIC]}"
        )
    return [(line[1], line[2].strip() == "yes") for line in lines]


def summary(first: Path, second: Path) -> dict[str, object]:
    rows = sheet()
    numbers, _, english, written = (list(column) for column in zip(*rows, strict=True))
    both = [verdicts(path, numbers) for path in (first, second)]
    counts = [Counter(verdict for verdict, _ in each) for each in both]
    same = sum(a[0] == b[0] for a, b in zip(*both, strict=True)) / COUNT
    by_luck = sum(counts[0][name] * counts[1][name] for name in RUBRIC) / COUNT**2
    each = [round(chrf([a], [b]).score, 1) for a, b in zip(written, english, strict=True)]
    return {
        "machine": machine() | {"command": command(__file__)},
        "judges": "two runs of a large language model, neither with sight of the other's verdicts",
        "rubric": RUBRIC, "seed": SEED, "model": MODEL, "split": "val", "numbers": numbers,
        "verdicts": [[verdict for verdict, _ in each] for each in both],
        "picture": [[picture for _, picture in each] for each in both],
        "agree": same, "kappa": (same - by_luck) / (1 - by_luck),
        "bleu": bleu(written, english).score, "chrf": chrf(written, english).score,
        "chrf each": each,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+", help="the sheet to write, or two to read")
    files = parser.parse_args().files
    if len(files) == 2:
        record("judged", summary(*files))
        return
    lines = ("\t".join(map(str, row)) for row in sheet())
    files[0].write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
