"""German and English captions, with who translates whom: an alignment made by hand.

The eighty pairs are our own. They have the style of Multi30k's image captions (Elliott et al. 2016,
arXiv:1605.00459) and most of their words, and are not among them: a model that is trained on
Multi30k has not seen one. So its cross-attention can be compared with what a reader would draw.

They stand in captions.txt: 67 of mostly frequent words, from short to long, then 13 with rare
words, compounds, and clauses whose verb comes last. Each pair is its German, its English and its
links. 3-2 says that German word 3 and English word 2, counted from zero, say the same; a comma and
a full stop count as words. Where one language needs more words, all are linked: im is "in the",
wartet is "is waiting", and both parts of a verb that separates (hört ... zu) are "listens to". A
word to which nothing corresponds has no link, as an article or a comma that only one of the
languages writes.
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
    """What an alignment counts: whatever stands between blanks, and each of . , ; : by itself."""
    return re.findall(r"[.,;:]|[^\s.,;:]+", sentence)


def read(text: str) -> Iterator[Caption]:
    """Three lines a pair, and an empty line between two pairs."""
    for pair in text.strip().split("\n\n"):
        german, english, links = pair.split("\n")
        ends = (link.split("-") for link in links.split())
        yield Caption(german, english, frozenset((int(i), int(j)) for i, j in ends))


CAPTIONS = tuple(read(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")))


def caption_pairs(translator: Translator) -> list[tuple[str, str]]:
    """Source and target, in this model's direction."""
    return directed([(c.german, c.english) for c in CAPTIONS], *direction(translator))


def direction(translator: Translator) -> tuple[str, str]:
    """From which language to which; a model of the phrasebook, which does not say, from German."""
    return translator.languages or ("de", "en")
