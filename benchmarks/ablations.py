"""What the shipped models lose without each of their parts, on the book's eighty captions.

Example: python benchmarks/ablations.py

Writes ablations.json among the records.
"""

import argparse

import torch
from tqdm import tqdm

from command import command
from unmasked.machine import machine
from unmasked.translator import shipped_models
from unmasked_book.ablation import losses
from unmasked_book.records import record


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    torch.set_num_threads(1)
    found = {name: losses(name) for name in tqdm(shipped_models(), unit="model")}
    result = {"machine": {**machine("cpu"), "command": command(__file__)}, "models": found}
    print(f"{len(found)} models are in {record('ablations', result)}")


if __name__ == "__main__":
    main()
