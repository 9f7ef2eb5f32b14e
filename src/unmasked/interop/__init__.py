"""Brings weights to and from other libraries: `torch.nn`, and Marian as OPUS-MT publishes it."""

from pathlib import Path

from ..translator import Translator
from .torch import from_torch, to_torch, torch_masks

__all__ = ["from_marian", "from_torch", "to_torch", "torch_masks"]


def from_marian(folder: Path | str) -> Translator:
    """Makes a translator of a folder in which Hugging Face's transformers keeps a MarianMT model.

    The folder decides beam, length penalty and the length that divides scores. Two vocabularies or
    untied embeddings raise ValueError. Such models were trained on single sentences: of several in
    one text, some may be lost. The weights are mapped, not copied: do not write over their file
    while the translator is used.
    """
    return Translator.load(folder)
