"""Reads eighty pairs of German and English captions, with word alignments made by hand.

The pairs are our own. They have the style of Multi30k's image captions (Elliott et al. 2016,
arXiv:1605.00459) and most of their words, and are not among them: a model that is trained on
Multi30k has not seen one. captions.txt holds 67 pairs of mostly frequent words, from short to long,
then 13 with rare words, compounds, and clauses whose verb comes last. The link 3-2 says that German
word 3 and English word 2, counted from zero, say the same; a comma and a full stop count as words.
Where one language needs more words, all are linked, and where it needs none, none is.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unmasked.text.sources import directed
from unmasked.translator import Translator


class Caption(NamedTuple):
    german: str
    english: str
    alignment: frozenset[tuple[int, int]]  # (German word, English word) that say the same


def caption_words(sentence: str) -> list[str]:
    """Splits a sentence into the words that alignments number; each of . , ; : is a word, too."""
    return re.findall(r"[.,;:]|[^\s.,;:]+", sentence)


def read(text: str) -> Iterator[Caption]:
    """Yields a Caption for each block of three lines in a text: German, English, links like 3-2."""
    for pair in text.strip().split("\n\n"):
        german, english, links = pair.split("\n")
        ends = (link.split("-") for link in links.split())
        yield Caption(german, english, frozenset((int(i), int(j)) for i, j in ends))


CAPTIONS = tuple(read(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")))


def caption_pairs(translator: Translator) -> list[tuple[str, str]]:
    """Returns all captions as (source, target) sentences, in the translator's direction."""
    return directed([(c.german, c.english) for c in CAPTIONS], *direction(translator))


def direction(translator: Translator) -> tuple[str, str]:
    """Returns the codes of source and target language: de and en if the translator names none."""
    return translator.languages or ("de", "en")
