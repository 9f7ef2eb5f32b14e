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
from .options import WHOLE, add_device, chosen_device, command, folder, program

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
NAMED = ("data.train", "data.valid", "training.steps", "training.patience")  # not only by --set
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
    known, files = ", ".join(presets), ("SOURCE", "TARGET")
    add = parser.add_argument
    add("--train", nargs=2, metavar=files, help="two files of yours, a sentence a line, or .gz")
    add("--valid", nargs=2, metavar=files, help="two more, for validation (a tenth, 200 at most)")
    add("--size", choices=SIZES, help="of a model for them (tiny)")
    add("--from", dest="start", metavar="MODEL",
        help="train this one further on them: de-en, a file, a folder")  # fmt: skip
    add("--steps", **WHOLE, help="updates at most")
    add("--patience", **WHOLE, help="end after N validations without a better one (5)")
    add("--preset", choices=presets, metavar="NAME", help=f"a recipe of the package: {known}")
    add("--config", type=Path, metavar="FILE", help="a recipe of yours: a TOML file as below")
    add("--out", type=folder, required=True, metavar="FOLDER", help="for all it writes")
    add("--resume", action="store_true", help="go on where it was, or beyond its --steps")
    add("--set", type=assignment, action="append", default=[], metavar="TABLE.KEY=VALUE",
        help='as in training.seed=1; "none" is no value')  # fmt: skip
    add_device(parser)
    every = {**WHOLE, "metavar": "STEPS"}
    add("--every", **every, help="note the loss, validate (20 times)")
    add("--checkpoint-every", **every, help="keep what --resume needs (as --every)")
    add("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args(words)
    if options.train is options.preset is options.config is None and not options.resume:
        parser.error(f"give --preset ({known}) or --config FILE or --train …")
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
    """Merges a recipe's tables from preset, TOML file and --set, or from a resumed training."""
    recipe: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    if options.train is options.preset is options.config is None:
        about = load(options.out / MODEL).about
        recipe, options.start = about["recipe"], options.start or about.get("start")
    preset = PRESETS / f"{options.preset}.toml" if options.preset else None
    for path in filter(None, (preset, options.config)):
        for table, values in read_toml(path).items():
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
    """Returns the tables of a recipe's TOML file; raises ValueError if it has anything else."""
    try:
        recipe = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise invalid(str(path), "a TOML file", error.strerror, "check the path") from None
    except (ValueError, RecursionError) as error:  # bad TOML, bad UTF-8, very long numbers
        raise invalid(str(path), "TOML", error, "mend what is there") from None
    for name, table in recipe.items():
        if name not in TABLES or not isinstance(table, dict):
            expected = f"tables among [{'], ['.join(TABLES)}]"
            got = f"[{name}]" if isinstance(table, dict) else f"{name} = {table!r}"
            raise invalid(str(path), expected, got, "put it under one of these")
    return recipe


def assignment(text: str) -> tuple[str, str, Any]:
    """Splits `training.steps=500` into table, key and value; what is no TOML value stays text."""
    where, equals, value = text.partition("=")
    table, _, key = where.strip().partition(".")
    if not equals or table not in TABLES or not key:
        tables = ", ".join(TABLES)
        raise argparse.ArgumentTypeError(f"{text!r} is not like training.steps=500 ({tables})")
    try:
        return table, key, tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return table, key, value
