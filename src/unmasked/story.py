"""The two sentences that the chapters on encoder, decoder and the whole model follow."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .data.batching import pad
from .validation import check_choice

GERMAN = ["<pad>", "<bos>", "<eos>", "ich", "möchte", "ein", "bier", "danke"]
ENGLISH = ["<pad>", "<bos>", "<eos>", "i", "want", "a", "beer", "thank", "you"]
PAIRS = [("ich möchte ein bier", "i want a beer"), ("danke", "thank you")]


def tokens(sentences: Sequence[str], vocabulary: Sequence[str]) -> Tensor:
    """Sentences → the numbers of their words, padded: [B, longest]."""
    split = [sentence.split() for sentence in sentences]
    for word in (word for sentence in split for word in sentence):
        check_choice("word", word, list(vocabulary))
    return pad([[vocabulary.index(word) for word in sentence] for sentence in split])


def words(tokens: Tensor, vocabulary: Sequence[str]) -> list[list[str]]:
    """Numbers → the words they stand for, padding included: a list for each sentence."""
    return [[vocabulary[token] for token in row] for row in tokens.tolist()]


def batch() -> tuple[Tensor, Tensor]:
    """The source [2, 5] with its <eos>, and the target [2, 6] between <bos> and <eos>."""
    source = tokens([f"{german} <eos>" for german, _ in PAIRS], GERMAN)
    return source, tokens([f"<bos> {english} <eos>" for _, english in PAIRS], ENGLISH)
