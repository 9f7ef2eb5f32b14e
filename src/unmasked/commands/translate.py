"""Translates sentences: those given, or one a line from standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ..devices import device
from ..translator import Translator
from .options import parse, parser

EXAMPLE = """python -m unmasked translate --model runs/phrasebook "ich möchte ein bier"
  python -m unmasked translate --model runs/phrasebook --beam 5 < german.txt > english.txt"""


def main(words: Sequence[str]) -> None:
    made = parser("translate", __doc__ or "", EXAMPLE)
    made.add_argument("sentences", nargs="*", help="in quotes; none: one a line on standard input")
    made.add_argument("--model", type=Path, required=True, metavar="FOLDER", help="a trained model")
    made.add_argument("--beam", type=int, default=1, metavar="N", help="hypotheses (1: greedy)")
    made.add_argument("--length-penalty", type=float, default=0.6, help="more: longer (0.6)")
    made.add_argument("--device", default=device(), help="such as cpu or cuda (the best there is)")
    options = parse(made, "translate", words)
    translator = Translator.load(options.model)
    translator.model.to(options.device)
    sentences = options.sentences or [line.strip() for line in sys.stdin]
    full = [sentence for sentence in sentences if sentence]
    settings = {"beam_size": options.beam, "length_penalty": options.length_penalty}
    translations = iter(translator.translate(full, **settings))
    for sentence in sentences:  # an empty line stays one
        print(next(translations) if sentence else "")
