"""Scores a model on sentences that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..data.sources import phrasebook_test
from ..evaluation import alignment_agreement, exact, with_known_words
from ..translator import Translator
from ..validation import check_at_least, invalid
from .options import add_device, chosen_device, parse, parser

EXAMPLE = "python -m unmasked evaluate --model runs/phrasebook --sentences 1000 --beam 4"


def main(words: Sequence[str]) -> None:
    made = parser("evaluate", __doc__ or "", EXAMPLE)
    made.add_argument("--model", type=Path, required=True, metavar="FOLDER", help="a trained model")
    made.add_argument("--test", choices=("phrasebook",), default="phrasebook",
                      help="phrasebook: held-out combinations of known words")  # fmt: skip
    made.add_argument("--sentences", type=int, default=500, metavar="N", help="how many (500)")
    made.add_argument("--beam", type=int, default=1, metavar="N", help="hypotheses (1: greedy)")
    add_device(made)
    options = parse(made, "evaluate", words)
    check_at_least("--sentences", options.sentences, 1)
    check_at_least("--beam", options.beam, 1)
    device = chosen_device(options.device)
    translator = Translator.load(options.model)
    translator.model.to(device)
    drawn = phrasebook_test(options.sentences)
    pairs = with_known_words(translator, drawn)
    if not pairs:
        fix = "take more of them, or train on more sentences"
        raise invalid("--sentences", "sentences whose words the model knows", "none", fix)
    if len(pairs) < len(drawn):
        print(f"left out, for words that the model does not know: {len(drawn) - len(pairs)}")
    print("translated without a mistake:")
    for name, score in exact(translator, pairs, options.beam, progress=True).items():
        print(f"  {name:14} {score}")
    agreement = alignment_agreement(translator, pairs)
    print(f"last layer's strongest source word is an aligned one: {agreement}")
