"""Scores a model on sentences that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..data.sources import phrasebook_test
from ..devices import device
from ..evaluation import alignment_agreement, exact
from ..translator import Translator
from .options import parse, parser

EXAMPLE = "python -m unmasked evaluate --model runs/phrasebook --sentences 1000 --beam 4"


def main(words: Sequence[str]) -> None:
    made = parser("evaluate", __doc__ or "", EXAMPLE)
    made.add_argument("--model", type=Path, required=True, metavar="FOLDER", help="a trained model")
    made.add_argument("--test", choices=("phrasebook",), default="phrasebook",
                      help="phrasebook: held-out combinations of known words")  # fmt: skip
    made.add_argument("--sentences", type=int, default=500, metavar="N", help="how many (500)")
    made.add_argument("--beam", type=int, default=1, metavar="N", help="hypotheses (1: greedy)")
    made.add_argument("--device", default=device(), help="such as cpu or cuda (the best there is)")
    options = parse(made, "evaluate", words)
    translator = Translator.load(options.model)
    translator.model.to(options.device)
    pairs = phrasebook_test(options.sentences)
    print("translated without a mistake:")
    for name, score in exact(translator, pairs, options.beam).items():
        print(f"  {name:14} {score}")
    agreement = alignment_agreement(translator, pairs)
    print(f"last layer's strongest source word is an aligned one: {agreement}")
