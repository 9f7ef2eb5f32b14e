"""Runs the command line, `python -m unmasked`: train, translate, evaluate, info."""

from .cli import main

main()
