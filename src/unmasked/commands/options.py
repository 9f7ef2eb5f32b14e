"""Options from the command line, and from a TOML file where one is given."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..validation import invalid


def parser(name: str, about: str, example: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=f"python -m unmasked {name}",
        description=about,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    help_ = f"a TOML file; its table [{name}] holds options as they are named here"
    made.add_argument("--config", type=Path, metavar="FILE", help=help_)
    return made


def parse(made: argparse.ArgumentParser, name: str, words: Sequence[str]) -> argparse.Namespace:
    """The options, those of the file first: what the command line says overrules it."""
    only_config = argparse.ArgumentParser(add_help=False)
    only_config.add_argument("--config", type=Path)
    path = only_config.parse_known_args(list(words))[0].config
    if path is not None:
        known = {a.dest: a for a in made._actions if a.option_strings and a.dest != "help"}
        for key, value in read_toml(path).get(name, {}).items():
            if key not in known:
                choices = ", ".join(sorted(known))
                made.error(f"{path}: [{name}] has no option {key!r}; there are: {choices}")
            kind = known[key].type
            known[key].default = kind(value) if callable(kind) else value
            known[key].required = False
    return made.parse_args(words)


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise invalid(str(path), "a TOML file", "none", "check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise invalid(str(path), "TOML", str(error), "mend that line") from None


def assignment(text: str) -> tuple[list[str], Any]:
    """`training.steps=500` → where, and the value, read as TOML (else as plain text)."""
    key, equals, value = text.partition("=")
    table, _, name = key.partition(".")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not like training.steps=500")
    try:
        return [table, name], tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return [table, name], value
