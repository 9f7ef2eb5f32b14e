"""Says what a trained model is: its sizes, its words, and what it was trained on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ..translator import WEIGHTS, Translator
from .options import parse, parser

EXAMPLE = "python -m unmasked info runs/phrasebook"


def main(words: Sequence[str]) -> None:
    made = parser("info", __doc__ or "", EXAMPLE)
    made.add_argument("model", type=Path, help="the folder of a trained model")
    made.add_argument("--json", action="store_true", help="for other programs to read")
    options = parse(made, "info", words)
    translator = Translator.load(options.model)
    config = asdict(translator.model.config)
    size = (options.model / WEIGHTS).stat().st_size
    if options.json:
        print(json.dumps({"config": config, "about": translator.about, "bytes": size}, indent=1))
        return
    print(f"{options.model}: {translator.model.count_parameters():,} parameters, {size:,} bytes")
    print(f"words: {len(translator.source)} source, {len(translator.target)} target")
    for title, values in (("model", config), *translator.about.items()):
        if isinstance(values, dict):
            print(f"{title}:")
            for name, value in values.items():
                print(f"  {name}: {value}")
        else:
            print(f"{title}: {values}")
