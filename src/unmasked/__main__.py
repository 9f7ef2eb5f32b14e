"""`python -m unmasked`: train, translate, evaluate, info."""

from __future__ import annotations

import argparse
import os
import sys

from .commands import COMMANDS


def main() -> None:
    made = argparse.ArgumentParser(
        prog="python -m unmasked",
        description="The Transformer, Unmasked: train a translator and use it.",
        epilog="`python -m unmasked COMMAND --help` has an example of each.",
    )
    about = "; ".join(f"{name}: {(c.__doc__ or '').strip()}" for name, c in COMMANDS.items())
    made.add_argument("command", choices=COMMANDS, help=about)
    made.add_argument("options", nargs=argparse.REMAINDER, help="of the command")
    options = made.parse_args()
    try:
        COMMANDS[options.command].main(options.options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError, FloatingPointError) as error:
        sys.exit(f"python -m unmasked {options.command}: {error}")
    except KeyboardInterrupt:
        sys.exit("\nstopped; if a training was running, --resume goes on from its last checkpoint")


if __name__ == "__main__":
    main()
