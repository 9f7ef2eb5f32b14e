"""Says what a trained model is: its sizes, its words, and what it was trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..errors import printable
from ..storage.model import weights_file
from ..translator import Translator, folder_of
from .options import MODEL, command

EXAMPLE = """python -m unmasked info de-en
  python -m unmasked info runs/phrasebook"""


def main(words: Sequence[str]) -> None:
    parser = command("info", __doc__ or "", EXAMPLE)
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    options = parser.parse_args(words)
    folder = folder_of(options.model)
    translator = Translator.load(folder)
    size = weights_file(folder).stat().st_size
    print(f"{options.model}: {translator.model.count_parameters():,} parameters, {size:,} bytes")
    print(f"vocabulary: {len(translator.source)} source, {len(translator.target)} target")
    show({"model": asdict(translator.model.config), **translator.about})


def show(values: Mapping[str, Any], indent: str = "") -> None:
    for name, value in values.items():
        if isinstance(value, Mapping):
            print(f"{indent}{printable(name)}:")
            show(value, indent + "  ")
        else:
            print(f"{indent}{printable(f'{name}: {value}')}")
