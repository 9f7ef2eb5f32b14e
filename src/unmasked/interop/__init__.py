"""Brings weights to and from other libraries: `torch.nn`, and Marian as OPUS-MT publishes it."""

from pathlib import Path

from ..translator import Translator
from .torch import from_torch, to_torch, torch_masks

__all__ = ["from_marian", "from_torch", "to_torch", "torch_masks"]


def from_marian(folder: Path | str) -> Translator:
    """Returns a translator with a MarianMT model, from a folder of Hugging Face's transformers.

    The folder's files set beam size, length penalty and how scores are divided by length. Two
    vocabularies or untied embeddings raise ValueError. Such models were trained on single
    sentences: of several in one text, some may be lost. The weights are mapped, not copied: do not
    write over their file while the translator is used.
    """
    return Translator.load(folder)
