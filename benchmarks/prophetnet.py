"""Does an output of ProphetNet move with what comes later, in the installed transformers?

Example: pip install "transformers==5.23.0" && python benchmarks/prophetnet.py

Adds a row for this version to the record prophetnet.json. Versions before 4.27 want an environment
of their own, with tokenizers 0.13 and huggingface-hub before 0.20.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from packaging.version import Version
from torch import Tensor

from command import command
from others import hugging, hugging_forward, hugging_sizes, hugging_step, repair_prophet
from unmasked.machine import machine
from unmasked_book.records import record, recorded, recorded_names

NAME, SOURCE, LONGEST = "prophetnet", [[5]], [[6, 7, 9, 8]]
CHANGES = {  # of the target: before and after; the first output must not move
    "a token appended": ([[6]], [[6, 7]]),
    "padding appended": ([[6]], [[6, 0]]),
    "the second of three exchanged": ([[6, 7, 9]], [[6, 8, 9]]),
}
PASSES = {"a full pass": hugging_forward, "token by token, with the cache": hugging_step}


def small_model() -> Any:
    torch.manual_seed(0)
    return hugging("ProphetNet", hugging_sizes()["ProphetNet"]).eval()


def largest(difference: Tensor) -> float:
    return float(f"{difference.abs().max().item():.2g}")


@torch.no_grad()
def moves(model: Any) -> dict[str, float]:
    """By how much the first output's logits move, at most."""

    def first(target: list[list[int]]) -> Tensor:
        read, source = torch.tensor(target), torch.tensor(SOURCE)
        logits: Tensor = model(input_ids=source, decoder_input_ids=read, use_cache=False).logits
        return logits[0, 0]

    return {what: largest(first(a) - first(b)) for what, (a, b) in CHANGES.items()}


@torch.no_grad()
def away(model: Any, repaired: Any) -> dict[str, float]:
    """How far the outputs of either way are from a full pass of the repaired model."""
    source, target = torch.tensor(SOURCE), torch.tensor(LONGEST)
    right = hugging_forward(repaired, source, target)
    return {way: largest(run(model, source, target) - right) for way, run in PASSES.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    import transformers

    row: dict[str, Any] = {"transformers": str(transformers.__version__)}
    row["moves"] = moves(small_model())
    if max(row["moves"].values()) > 1e-5:
        row["away from the repaired model"] = away(small_model(), repair_prophet(small_model()))
    rows = recorded(NAME)["rows"] if NAME in recorded_names() else []
    rows = [each for each in rows if each["transformers"] != row["transformers"]] + [row]
    rows.sort(key=lambda each: Version(each["transformers"]))
    about = {**machine("cpu"), "command": command(__file__)}
    path = record(NAME, {"machine": about, "rows": rows})
    print(f"{row['transformers']} is in {path}")


if __name__ == "__main__":
    main()
