"""Translates sentences: those given, or one a line from standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..errors import check_whole, invalid
from ..translator import load
from .options import MODEL, PENALTY, add_device, chosen_device, parser

AT_ONCE = 1024  # sentences, after which what is done is printed
EXAMPLE = """python -m unmasked translate --model de-en "Ein Hund rennt über die Wiese."
  python -m unmasked translate --model runs/phrasebook --beam 4 < german.txt
  python -m unmasked translate --model de-en --sample 5 --top-p 0.9 < german.txt"""


def main(words: Sequence[str]) -> None:
    made = parser("translate", __doc__ or "", EXAMPLE)
    made.add_argument("sentences", nargs="*", help="in quotes; none: one a line on standard input")
    made.add_argument("--model", required=True, metavar="MODEL", help=MODEL)
    made.add_argument("--beam", type=int, default=1, metavar="N", help="hypotheses (1: greedy)")
    made.add_argument("--length-penalty", type=float, metavar="X", help=PENALTY)
    made.add_argument("--sample", type=int, metavar="N", help="draw N of each by chance instead")
    made.add_argument("--temperature", type=float, default=1.0, metavar="X",
                      help="of --sample: below 1 favours the likely (1)")  # fmt: skip
    made.add_argument("--top-k", type=int, metavar="N", help="of --sample: the N likeliest tokens")
    made.add_argument("--top-p", type=float, default=1.0, metavar="P",
                      help="of --sample: the likeliest tokens with P together (1)")  # fmt: skip
    made.add_argument("--seed", type=int, metavar="N", help="of --sample: the same each time")
    add_device(made)
    options = made.parse_args(words)
    check_whole("--beam", options.beam, 1)
    device = chosen_device(options.device)
    translator = load(options.model)
    translator.model.to(device)
    sentences = [typed(word) for word in options.sentences] or lines()
    for number, sentence in enumerate(sentences):
        translator.numbered(number, sentence)  # all of them, before the work
    if options.sample is not None:
        if options.beam != 1:
            raise invalid("--sample", "no --beam beside it", options.beam, "choose one of the two")
        drawn = ("temperature", "top_k", "top_p", "seed")
        chance = {name: getattr(options, name) for name in drawn}
        for texts in translator.sample(sentences, options.sample, **chance, progress=True):
            print("\n".join(texts))
        return
    settings = {"beam_size": options.beam, "length_penalty": options.length_penalty}
    for start in range(0, len(sentences), AT_ONCE):
        some = sentences[start : start + AT_ONCE]
        print("\n".join(translator.translate(some, **settings, progress=True)), flush=True)


def typed(word: str) -> str:
    """A sentence of the command line, as UTF-8, whatever the locale took it for."""
    return os.fsencode(word).decode(errors="surrogateescape")


def lines() -> list[str]:
    """Of standard input; an empty one counts."""
    if sys.stdin.isatty():
        print("one sentence a line; Ctrl-D ends", file=sys.stderr)
    try:
        return [line.rstrip("\n") for line in sys.stdin]
    except UnicodeDecodeError as error:
        raise invalid("standard input", "UTF-8", error, "save the text as UTF-8") from None
