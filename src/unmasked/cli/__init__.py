"""`python -m unmasked`: train, translate, evaluate, info; a file for each."""

from __future__ import annotations

import argparse
import io
import os
import sys
import textwrap

from .. import __version__
from . import evaluate, info, train, translate
from .options import program

COMMANDS = {"train": train, "translate": translate, "evaluate": evaluate, "info": info}


def main() -> None:
    """Runs a command; what its user did wrong is said in one line, without a traceback."""
    open_streams()
    use_utf8()
    try:
        try:
            run()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def run() -> None:
    parser = commands()
    options = parser.parse_args()
    if options.command is None:
        parser.error(f"expected a command: {', '.join(COMMANDS)}")
    name, words = f"{program()} {options.command}", options.options
    debug = "--debug" in words
    try:
        COMMANDS[options.command].main(words)
    except BrokenPipeError:
        raise
    except (ValueError, OSError, FloatingPointError) as error:
        if debug:
            raise
        sys.exit(f"{name}: {error}")
    except RuntimeError as error:
        if debug or "allocate" not in str(error):
            raise
        reason = str(error).splitlines()[0]
        sys.exit(f"{name}: not enough memory ({reason}); smaller sizes or batches need less")
    except KeyboardInterrupt:
        on = "; --resume goes on from the last checkpoint" if options.command == "train" else ""
        print(f"\n{name}: stopped{on}", file=sys.stderr)
        sys.exit(130)  # as a shell reports Ctrl-C


def commands() -> argparse.ArgumentParser:
    about = [
        textwrap.fill(f"  {name:10} {module.__doc__}", 78, subsequent_indent=" " * 13)
        for name, module in COMMANDS.items()
    ]
    parser = argparse.ArgumentParser(
        prog=program(),
        usage="%(prog)s [-h] [--version] COMMAND [OPTION ...]",
        description="The Transformer, Unmasked: train a translator and use it.",
        epilog="\n".join(["commands:", *about, "", "example:", f"  {program()} train --help"]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"unmasked {__version__}")
    parser.add_argument("command", nargs="?", choices=COMMANDS, help=argparse.SUPPRESS)
    parser.add_argument("options", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def open_streams() -> None:
    """Where one was closed, nothing is read and nothing is shown; but no result is lost unsaid."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        sys.exit(f"{program()}: standard output is closed; send it to a file or /dev/null")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115


def use_utf8() -> None:
    """Whatever the locale says: text files and other programs speak it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig")
