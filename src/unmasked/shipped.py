"""The trained models of this package, by name."""

from __future__ import annotations

from pathlib import Path

from .translator import Translator
from .validation import invalid

MODELS = Path(__file__).parent / "models"


def names() -> list[str]:
    return sorted(path.name for path in MODELS.iterdir() if path.is_dir())


def load(model: Path | str) -> Translator:
    """`load("de-en")`, offline and on a CPU; or the folder that a training of yours has written."""
    return Translator.load(folder_of(model))


def folder_of(model: Path | str) -> Path:
    """Where it is: a name goes before a folder that is called the same."""
    if str(model) in names():
        return MODELS / str(model)
    if not Path(model).is_dir():
        fix = "or the folder that `python -m unmasked train` wrote"
        raise invalid("model", f"one of {', '.join(names())}", repr(str(model)), fix)
    return Path(model)
