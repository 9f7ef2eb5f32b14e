"""Says what a trained model is: its sizes, its words, and what it was trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..errors import printable
from ..storage.model import MODEL as FILE
from ..translator import Translator, path_of
from .options import MODEL, command

EXAMPLE = """python -m unmasked info de-en
  python -m unmasked info runs/phrasebook"""


def main(words: Sequence[str]) -> None:
    parser = command("info", __doc__ or "", EXAMPLE)
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    options = parser.parse_args(words)
    path = path_of(options.model)
    translator = Translator.load(path)
    one = path / FILE if (path / FILE).exists() else path
    files = one.iterdir() if one.is_dir() else [one]  # older and other formats are folders
    size = sum(file.stat().st_size for file in files)
    name = printable(options.model)
    print(f"{name}: {translator.model.count_parameters():,} parameters, {size:,} bytes")
    print(f"vocabulary: {len(translator.source)} source, {len(translator.target)} target")
    show({"model": asdict(translator.model.config), **translator.about})


def show(values: Mapping[str, Any], indent: str = "") -> None:
    for name, value in values.items():
        if isinstance(value, Mapping):
            print(f"{indent}{printable(name)}:")
            show(value, indent + "  ")
        else:
            print(f"{indent}{printable(f'{name}: {value}')}")
