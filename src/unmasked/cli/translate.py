"""Translates sentences: those given, or one a line from standard input."""

import gzip
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import invalid, require_seed, require_whole, written_out
from ..search import generator_of
from ..text.corpus import decoded, lines_of
from ..translator import Translator, load
from .options import MODEL, PENALTY, WHOLE, add_device, chosen_device, command

AT_ONCE = 1024  # hypotheses that are computed before any is printed
CHANCE = ("temperature", "top_k", "top_p", "seed")
EXAMPLE = """python -m unmasked translate --model de-en "Ein Hund rennt über die Wiese."
  python -m unmasked translate --model runs/mine --input new.de --output new.en
  python -m unmasked translate --model runs/phrasebook --beam 4 < german.txt
  python -m unmasked translate --model de-en --sample 5 --top-p 0.9 < german.txt"""


def main(words: Sequence[str]) -> None:
    parser = command("translate", __doc__ or "", EXAMPLE)
    likely, together = "below 1 favours the likely (1)", "the likeliest tokens with P together (1)"
    add = parser.add_argument
    add("sentences", nargs="*", help="in quotes; none: one a line on standard input")
    add("--model", required=True, metavar="MODEL", help=MODEL)
    add("--input", metavar="FILE", help="one a line; .gz is unpacked (-: standard)")
    add("--output", metavar="FILE", help="where to; .gz is packed (-: standard)")
    add("--prefix", metavar="TEXT", help="what every translation must begin with")
    add("--beam", **WHOLE, help="hypotheses (the model's own, or 1)")
    add("--length-penalty", type=float, metavar="X", help=PENALTY)
    add("--sample", **WHOLE, help="draw N of each by chance instead")
    add("--temperature", type=float, metavar="X", help=f"of --sample: {likely}")
    add("--top-k", **WHOLE, help="of --sample: the N likeliest tokens")
    add("--top-p", type=float, metavar="P", help=f"of --sample: {together}")
    add("--seed", **WHOLE, help="of --sample: the same each time")
    add_device(parser)
    options = parser.parse_args(words)
    require_options(options)
    if options.seed is not None:
        require_seed(options.seed)
        options.seed = generator_of(options.seed)  # one generator for all portions
    translator = load(options.model, device=chosen_device(options.device))
    sentences = options.sentences or lines(options.input)
    for number, sentence in enumerate(sentences):
        translator.numbered(number, sentence)  # raises for any sentence before the first is printed
    at_once = max(1, AT_ONCE // ((options.beam or 1) * (options.sample or 1)))
    portions = (
        texts(translator, sentences[start : start + at_once], options)
        for start in range(0, len(sentences), at_once)
    )
    first = next(portions, [])  # wrong options raise here, before the output file is emptied
    with opened(options.output) as file:
        for text in chain(first, chain.from_iterable(portions)):
            line = " ".join(text.splitlines())
            print(line if file else written_out(line), file=file, flush=not file)


def require_options(options: Any) -> None:
    """Raises ValueError for options that contradict each other or would have no effect."""
    require_whole("--beam", 1 if options.beam is None else options.beam)
    if options.input and options.sentences:
        raise invalid("--input", "no sentences beside it", options.sentences[0], "leave one out")
    if options.output not in (None, "-"):
        path = Path(options.output)
        if path.is_dir() or not path.parent.is_dir():
            raise invalid("--output", "a file in a folder that exists", repr(str(path)), "name one")
        if options.input and path.exists() and path.samefile(options.input):
            raise invalid("--output", "another file than --input", options.input, "name another")
    chance_options = [name for name in CHANCE if getattr(options, name) is not None]
    if chance_options and options.sample is None:
        name = f"--{chance_options[0].replace('_', '-')}"
        raise invalid(name, "--sample beside it", "none", "it is for sampling alone")
    if options.sample is not None:
        require_whole("--sample", options.sample)
        if options.beam not in (None, 1):
            raise invalid("--sample", "no --beam beside it", options.beam, "choose one of the two")
    if options.length_penalty is not None and options.beam in (None, 1):
        raise invalid("--length-penalty", "--beam beside it", "none", "it is for a beam alone")


def texts(translator: Translator, sentences: list[str], options: Any) -> list[str]:
    """Returns the translation of each sentence, or all its samples; empty for an empty sentence."""
    same = {"prefix": options.prefix, "progress": True}
    if options.sample is None:
        settings = {"beam_size": options.beam, "length_penalty": options.length_penalty}
        return translator.translate(sentences, **settings, **same)
    given = {name: getattr(options, name) for name in CHANCE}
    chance = {name: value for name, value in given.items() if value is not None}
    drawn = translator.sample(sentences, options.sample, **chance, **same)
    return [text for samples in drawn for text in samples or [""] * options.sample]


@contextmanager
def opened(path: str | None) -> Iterator[Any]:
    """Yields a text file opened for writing, packed if it ends in .gz; None for standard output."""
    if path in (None, "-"):
        yield None
        return
    write: Any = gzip.open if path.endswith(".gz") else open
    try:
        with write(path, "wt", encoding="utf-8") as file:
            yield file
    except OSError as error:
        got = error.strerror or str(error)
        raise invalid("--output", f"a {path} that can be written", got, "make room") from None


def lines(path: str | None) -> list[str]:
    """Returns the lines of a file or of standard input, empty ones included."""
    if path not in (None, "-"):
        return list(lines_of(path))
    if sys.stdin.isatty():
        print("one sentence a line; Ctrl-D ends", file=sys.stderr)
    return list(decoded("standard input", sys.stdin.buffer))
