"""Options from the command line, and from a TOML file where one is given."""

from __future__ import annotations

import argparse
import textwrap
import tomllib
from collections.abc import Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import torch

from ..errors import invalid
from ..training.machine import device

RECIPE = ("data", "model", "training")
MODEL = "a model of this package (de-en, en-de), or a folder with a trained one"
PENALTY = "of a beam; more: longer (what was chosen for the model, else 0.6)"
TABLES = (*RECIPE, "train", "translate", "evaluate", "info")


def parser(name: str, about: str, example: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=f"python -m unmasked {name}",
        description=textwrap.fill(about, 78),
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    help_ = f"a TOML file; its table [{name}] holds options as they are named here"
    made.add_argument("--config", type=Path, metavar="FILE", help=help_)
    return made


def add_flag(made: argparse.ArgumentParser, option: str, help_: str) -> None:
    """On or off; --no-… turns off what a file has turned on."""
    made.add_argument(option, action=argparse.BooleanOptionalAction, help=help_)


def add_device(made: argparse.ArgumentParser) -> None:
    made.add_argument("--device", metavar="NAME", help="such as cpu or cuda (the best there is)")


def chosen_device(name: str | None) -> torch.device:
    best = device()
    there = {best.type: torch.accelerator.device_count(), "cpu": 1}
    try:
        chosen = torch.device(name) if name is not None else best
    except RuntimeError:  # no device is called that
        chosen = None
    if chosen is None or (chosen.index or 0) >= there.get(chosen.type, 0):
        fix = "leave it out to take the best there is"
        raise invalid("--device", " or ".join(there), repr(name), fix)
    return chosen


# --- A file ----------------------------------------------------------------------------------


def parse(made: argparse.ArgumentParser, name: str, words: Sequence[str]) -> argparse.Namespace:
    """What the command line says, else the file, else the default."""
    only_config = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    only_config.add_argument("--config", type=Path, nargs="?")
    path = only_config.parse_known_args(list(words))[0].config
    if path is not None:
        known = {a.dest: a for a in made._actions if a.dest not in ("help", "config")}
        for key, value in read_toml(path).get(name, {}).items():
            action = known.get(key.replace("-", "_"))
            if action is None:
                expected = f"options of {name} ({', '.join(sorted(known))})"
                raise invalid(f"{path}: [{name}]", expected, repr(key), "take one of these")
            action.default = value_of(action, value, f"{path}: [{name}] {key}")
            action.required = False
    return made.parse_args(words)


def value_of(action: argparse.Action, value: Any, argument: str) -> Any:
    """A value of the file, as the command line would have taken it."""
    if action.nargs == "*" or isinstance(action.default, list):
        if not isinstance(value, list):
            raise invalid(argument, "a list", repr(value), f"write [{value!r}]")
        return [converted(action, each, argument) for each in value]
    return converted(action, value, argument)


def converted(action: argparse.Action, value: Any, argument: str) -> Any:
    kind: Any = bool if isinstance(action, argparse.BooleanOptionalAction) else action.type or str
    try:
        if isinstance(value, bool) != (kind is bool) or isinstance(value, (list, dict)):
            raise ValueError(value)
        found = kind(value if kind is bool else str(value))
        if action.choices and found not in action.choices:
            raise ValueError(found)
    except (ValueError, argparse.ArgumentTypeError):
        names = {bool: "true or false", int: "a whole number", float: "a number"}
        expected = " or ".join(action.choices or [names.get(kind, "text")])
        fix = "a file takes what the command line takes: see --help"
        raise invalid(argument, expected, repr(value), fix) from None
    return found


def read_toml(path: Path | Traversable) -> dict[str, dict[str, Any]]:
    """Its tables, all of which must be known."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise invalid(str(path), "a TOML file", error.strerror, "check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise invalid(str(path), "TOML", error, "mend what is there") from None
    for name, table in found.items():
        if name not in TABLES or not isinstance(table, dict):
            expected = f"tables among [{'], ['.join(TABLES)}]"
            got = f"[{name}]" if isinstance(table, dict) else f"{name} = {table!r}"
            raise invalid(str(path), expected, got, "put it under one of these")
    return found


def assignment(text: str) -> tuple[str, str, Any]:
    """`training.steps=500` → table, key, and the value read as TOML (else as plain text)."""
    where, equals, value = text.partition("=")
    table, _, key = where.strip().partition(".")
    if not equals or table not in RECIPE or not key:
        tables = ", ".join(RECIPE)
        raise argparse.ArgumentTypeError(f"{text!r} is not like training.steps=500 ({tables})")
    try:
        return table, key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return table, key, value
