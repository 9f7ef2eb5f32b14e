"""Translators in OPUS-MT's format."""

from pathlib import Path

from ..translator import Translator


def from_marian(folder: Path | str) -> Translator:
    """A translator of the folder in which transformers keeps a MarianMT model.

    Its beam, its length penalty and the length by which scores are divided are that folder's. What
    the format allows and we do not (two vocabularies, untied embeddings) is refused. Such models
    were trained on single sentences: of several in one text, some may be lost. The weights are
    mapped, not copied: while the translator is used, do not write over its file.
    """
    return Translator.load(folder)
