"""Makes the parsers of the commands, and the options that several of them take."""

import argparse
import sys
import textwrap
from pathlib import Path
from typing import Any

import torch

from ..errors import invalid
from ..machine import device

MODEL = "a model of this package (de-en, en-de), a folder with one, or owner/name on huggingface.co"
WHOLE: Any = {"type": int, "metavar": "N"}
PENALTY = "of a beam; more: longer (what was chosen for the model, else 0.6)"


def program() -> str:
    """Returns `unmasked` or `python -m unmasked`, whichever started the program."""
    return "unmasked" if Path(sys.argv[0]).stem == "unmasked" else "python -m unmasked"


def command(name: str, about: str, example: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{program()} {name}",
        description=textwrap.fill(about, 78),
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    return parser


def folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("expected a folder, got an empty name")
    return Path(text)


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", metavar="NAME", help="such as cpu or cuda (the best there is)")


def chosen_device(name: str | None) -> torch.device:
    best = device()
    counts = {"cpu": 1}
    if best.type != "cpu":  # some builds for GPUs raise an error if they count and there is none
        counts = {best.type: torch.accelerator.device_count(), **counts}
    try:
        chosen = torch.device(name) if name is not None else best
    except RuntimeError:  # no device has this name
        chosen = None
    if chosen is None or (chosen.index or 0) >= counts.get(chosen.type, 0):
        fix = "leave it out to take the best there is"
        raise invalid("--device", " or ".join(counts), repr(name), fix)
    return chosen
