"""Checks a Transformer of yours, or of Hugging Face's, for bugs; ends with 1 if it finds one."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from ..checking.check import check
from ..errors import invalid
from .options import WHOLE, command

EXAMPLE = """python -m unmasked check mine:make_model --vocab 100
  python -m unmasked check mine:make_model --vocab 100 --forward mine:forward --step mine:step
  python -m unmasked check --hf LlamaForCausalLM --json"""


def main(words: Sequence[str]) -> None:
    parser = command("check", __doc__ or "", EXAMPLE)
    add = parser.add_argument
    add("model", nargs="?", metavar="MODULE:NAME", help="what makes the model, when it is called")
    add(
        "--hf", metavar="NAME", help="instead: a class of transformers, or owner/name; tiny, random"
    )
    add("--vocab", **WHOLE, help="the vocabulary of a decoder or an encoder alone")
    add("--source-vocab", **WHOLE, help="the source's of an encoder-decoder")
    add("--target-vocab", **WHOLE, help="and the target's")
    add("--padding", **WHOLE, help="the token that fills short sentences")
    add("--forward", metavar="MODULE:NAME", help="how it is called, as for unmasked.check")
    add("--step", metavar="MODULE:NAME", help="how it is called with its cache")
    add("--encoder", action="store_true", help="it may look both ways")
    add("--seed", default=0, **WHOLE, help="draws the words, and the model of --hf (0)")
    add("--json", action="store_true", help="print the findings as JSON")
    options = parser.parse_args(words)
    if (options.model is None) == (options.hf is None):
        raise invalid("MODULE:NAME", "it or --hf", "both or neither", "name one model")
    given = {name: getattr(options, name) for name in ("vocab", "source_vocab", "target_vocab")}
    if options.padding is not None:
        given["padding"] = options.padding
    for name in ("forward", "step"):
        if getattr(options, name):
            given[name] = named(getattr(options, name))
    model = options.hf or named(options.model)()
    found = {"encoder": options.encoder, "seed": options.seed, "quiet": options.json}
    report = check(model, **given, **found)
    if options.json:
        print(json.dumps([asdict(finding) for finding in report.findings], indent=1))
    sys.exit(int(not report.ok))


def named(text: str) -> Any:
    """Imports what MODULE:NAME names, also from the folder in which the command is run."""
    module, _, name = text.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        fix = "write it as in mine:make_model, for make_model in mine.py"
        raise invalid("MODULE:NAME", "something to import", f"{text!r} ({error})", fix) from None
