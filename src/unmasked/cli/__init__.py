"""Runs the commands of `python -m unmasked`: each in a file of its own.

An installed package may add a command, as an entry point of the group `unmasked.commands`: a module
with a docstring and `main(words)`.
"""

import argparse
import io
import os
import signal
import sys
import textwrap
from collections.abc import Callable
from importlib.metadata import entry_points
from types import ModuleType

from .. import __version__
from . import check, evaluate, info, train, translate
from .options import program

COMMANDS = {
    "train": train, "translate": translate, "evaluate": evaluate, "info": info, "check": check,
}  # fmt: skip


def main() -> None:
    """Runs a command; a user's error ends it with one line and no traceback."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    open_streams()
    use_utf8()
    try:
        try:
            run()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def run() -> None:
    added = {each.name: each.load for each in entry_points(group="unmasked.commands")}
    parser = parser_with(added)
    options = parser.parse_args()
    chosen, words = options.command, options.options
    if chosen is None:
        parser.error(f"expected a command: {', '.join([*COMMANDS, *added])}")
    name, debug = f"{program()} {chosen}", "--debug" in words
    try:
        module = added[chosen]() if chosen in added else COMMANDS[chosen]
        module.main(words)
    except (ValueError, OSError, FloatingPointError) as error:
        if debug or isinstance(error, BrokenPipeError):
            raise
        sys.exit(f"{name}: {error}")
    except RuntimeError as error:
        if debug or "allocate" not in str(error):
            raise
        reason = str(error).splitlines()[0]
        sys.exit(f"{name}: not enough memory ({reason}); smaller sizes or batches need less")
    except KeyboardInterrupt:
        on = "; --resume goes on from the last checkpoint" if chosen == "train" else ""
        print(f"\n{name}: stopped{on}", file=sys.stderr)
        sys.exit(130)  # as a shell reports Ctrl-C


def parser_with(added: dict[str, Callable[[], ModuleType]]) -> argparse.ArgumentParser:
    """Returns a parser of the command's name; other packages' commands load only for --help."""
    described = added if sys.argv[1:] and sys.argv[1].startswith(("-h", "--h")) else {}
    modules = COMMANDS | {name: load() for name, load in described.items()}
    about = [
        textwrap.fill(f"  {name:10} {module.__doc__}", 78, subsequent_indent=" " * 13)
        for name, module in modules.items()
    ]
    parser = argparse.ArgumentParser(
        prog=program(),
        usage="%(prog)s [-h] [--version] COMMAND [OPTION ...]",
        description="The Transformer, Unmasked: train a translator and use it.",
        epilog="\n".join(["commands:", *about, "", "example:", f"  {program()} train --help"]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"unmasked {__version__}")
    names = [*COMMANDS, *added]
    parser.add_argument("command", nargs="?", choices=names, help=argparse.SUPPRESS)
    parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def open_streams() -> None:
    """Replaces closed streams by /dev/null; exits if standard output, for results, is closed."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        sys.exit(f"{program()}: standard output is closed; send it to a file or /dev/null")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115


def use_utf8() -> None:
    """Sets standard output and error to UTF-8, whatever the locale: other programs expect it."""
    for stream in (sys.stdout, sys.stderr):  # standard input is read as bytes
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
