"""Trains a model and keeps it in a folder; killed at any time, it goes on where it was."""

import argparse
import shlex
import tomllib
from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from ..errors import invalid, require_whole
from ..storage.model import MODEL
from ..training.run import SIZES, TABLES, run, sized
from ..translator import load
from .options import add_device, chosen_device, command, folder, program

EXAMPLE = """python -m unmasked train --train train.de train.en --out runs/mine
  python -m unmasked train --out runs/mine --resume --steps 8000
  python -m unmasked train --from de-en --train my.de my.en --out runs/fine
  python -m unmasked train --preset phrasebook --out runs/phrasebook
  python -m unmasked train --config my.toml --out runs/my --set training.seed=1
  torchrun --nproc-per-node 2 -m unmasked train --config my.toml --out runs/two

my.toml:
  [data]
  name = "phrasebook"
  count = 40000
  [model]
  d_model = 64
  n_heads = 4
  n_layers = 2
  d_ff = 256
  [training]
  steps = 1200"""
NAMED = ("data.train", "data.valid", "training.steps", "training.patience")  # options of their own
PRESETS = resources.files("unmasked") / "recipes"


def main(words: Sequence[str]) -> None:
    parser = command("train", __doc__ or "", EXAMPLE)
    options = arguments(parser, words)
    device = chosen_device(options.device)
    recipe = tables(options)
    line = shlex.join(["python", "-m", "unmasked", "train", *words])
    if run(
        recipe, options.out, device, line, start=options.start, resume=options.resume,
        every=options.every, checkpoint_every=options.checkpoint_every, progress=not options.quiet,
    ):  # fmt: skip
        print(f'the model is in {options.out}: {program()} info "{options.out}"')


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    presets = sorted(path.name.removesuffix(".toml") for path in PRESETS.iterdir())
    parser.add_argument("--train", nargs=2, metavar=("SOURCE", "TARGET"),
                        help="two files of yours, a sentence a line, or .gz")  # fmt: skip
    parser.add_argument("--valid", nargs=2, metavar=("SOURCE", "TARGET"),
                        help="two more, for validation (a tenth, 200 at most)")  # fmt: skip
    parser.add_argument("--size", choices=SIZES, help="of a model for them (tiny)")
    parser.add_argument("--from", dest="start", metavar="MODEL",
                        help="train this one further on them: de-en, a file, a folder")  # fmt: skip
    parser.add_argument("--steps", type=int, metavar="N", help="updates at most")
    parser.add_argument("--patience", type=int, metavar="N",
                        help="end after N validations without a better one (5)")  # fmt: skip
    parser.add_argument("--preset", choices=presets, metavar="NAME",
                        help=f"a recipe of the package: {', '.join(presets)}")  # fmt: skip
    parser.add_argument("--config", type=Path, metavar="FILE",
                        help="a recipe of yours: a TOML file as below")  # fmt: skip
    parser.add_argument("--out", type=folder, required=True, metavar="FOLDER",
                        help="for all it writes")  # fmt: skip
    parser.add_argument("--resume", action="store_true",
                        help="go on where it was, or beyond its --steps")  # fmt: skip
    parser.add_argument("--set", type=assignment, action="append", default=[],
                        metavar="TABLE.KEY=VALUE",
                        help='as in training.seed=1; "none" is no value')  # fmt: skip
    add_device(parser)
    parser.add_argument("--every", type=int, metavar="STEPS",
                        help="note the loss, validate (20 times)")  # fmt: skip
    parser.add_argument("--checkpoint-every", type=int, metavar="STEPS",
                        help="keep what --resume needs (as --every)")  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args(words)
    if options.train is options.preset is options.config is None and not options.resume:
        parser.error(f"give --preset ({', '.join(presets)}) or --config FILE or --train …")
    if options.train and options.preset:
        parser.error("give --train or --preset, not both")
    for name in ("every", "checkpoint_every"):
        if getattr(options, name) is not None:
            require_whole(f"--{name.replace('_', '-')}", getattr(options, name))
    named = [(*name.split("."), vars(options)[name.partition(".")[2]]) for name in NAMED]
    named.append(("data", "name", "files" if options.train else None))
    options.set = [each for each in named if each[2] is not None] + options.set
    return options


# --- The recipe -------------------------------------------------------------------------------


def tables(options: Any) -> dict[str, dict[str, Any]]:
    """The preset's, then the file's, then what --set says; else those that are resumed."""
    recipe: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    if options.train is options.preset is options.config is None:
        about = load(options.out / MODEL).about
        recipe, options.start = about["recipe"], options.start or about.get("start")
    preset = PRESETS / f"{options.preset}.toml" if options.preset else None
    for path in (preset, options.config):
        for table, values in (read_toml(path) if path else {}).items():
            recipe[table] |= values
    for table, key, value in options.set:
        recipe[table][key] = value
    for values in recipe.values():  # TOML has no None
        values |= {key: None for key, value in values.items() if value == "none"}
    if "name" not in recipe["data"]:
        fix = "add name = … to [data], or give --train"
        raise invalid("[data]", "a name, such as phrasebook", "none", fix)
    return sized(recipe, options.size, options.start)


def read_toml(path: Path | Traversable) -> dict[str, dict[str, Any]]:
    """A recipe's tables, and nothing else."""
    try:
        recipe = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise invalid(str(path), "a TOML file", error.strerror, "check the path") from None
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of numbers without end
        raise invalid(str(path), "TOML", error, "mend what is there") from None
    for name, table in recipe.items():
        if name not in TABLES or not isinstance(table, dict):
            expected = f"tables among [{'], ['.join(TABLES)}]"
            got = f"[{name}]" if isinstance(table, dict) else f"{name} = {table!r}"
            raise invalid(str(path), expected, got, "put it under one of these")
    return recipe


def assignment(text: str) -> tuple[str, str, Any]:
    """`training.steps=500` → table, key, and the value read as TOML (else as plain text)."""
    where, equals, value = text.partition("=")
    table, _, key = where.strip().partition(".")
    if not equals or table not in TABLES or not key:
        tables = ", ".join(TABLES)
        raise argparse.ArgumentTypeError(f"{text!r} is not like training.steps=500 ({tables})")
    try:
        return table, key, tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return table, key, value
