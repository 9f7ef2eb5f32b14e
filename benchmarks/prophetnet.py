"""Does an output of ProphetNet move with what comes later? Asked of the transformers installed here.

Example: pip install "transformers==5.23.0" && python benchmarks/prophetnet.py

Adds a row for this version to the record prophetnet.json. Versions before 4.27 want an environment
of their own, with tokenizers 0.13 and huggingface-hub before 0.20.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from torch import Tensor

from command import command
from unmasked.training.machine import machine
from unmasked_book.records import record, recorded, recorded_names

NAME = "prophetnet"
CHANGES = {  # of the target: before and after; the first output must not move
    "a token appended": ((6,), (6, 7)),
    "padding appended": ((6,), (6, 0)),
    "the second of three exchanged": ((6, 7, 9), (6, 8, 9)),
}


def small_model() -> Any:
    from transformers import ProphetNetConfig, ProphetNetForConditionalGeneration

    sides = ("encoder", "decoder")
    sizes: dict[str, Any] = {"hidden_size": 32, "vocab_size": 20, "init_std": 0.1}
    for side in sides:
        sizes |= {f"num_{side}_layers": 2, f"num_{side}_attention_heads": 4, f"{side}_ffn_dim": 64}
    torch.manual_seed(0)
    return ProphetNetForConditionalGeneration(ProphetNetConfig(**sizes)).eval()


@torch.no_grad()
def first_output(model: Any, target: tuple[int, ...]) -> Tensor:
    source, read = torch.tensor([[5]]), torch.tensor([target])
    logits: Tensor = model(input_ids=source, decoder_input_ids=read, use_cache=False).logits
    return logits[0, 0]


def moves(model: Any) -> dict[str, float]:
    """By how much the first output's logits move, at most."""
    return {
        what: float(f"{(first_output(model, a) - first_output(model, b)).abs().max().item():.2g}")
        for what, (a, b) in CHANGES.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    import transformers

    version = str(transformers.__version__)
    rows = recorded(NAME)["rows"] if NAME in recorded_names() else []
    others = [row for row in rows if row["transformers"] != version]
    rows = sorted([*others, {"transformers": version, "moves": moves(small_model())}],
                  key=lambda row: [int(part) for part in row["transformers"].split(".")])  # fmt: skip
    about = {**machine("cpu"), "command": command(__file__)}
    print(f"{version} is in {record(NAME, {'machine': about, 'rows': rows})}")


if __name__ == "__main__":
    main()
