"""Judges answers to the exercises of chapter 7."""

from typing import Any

from unmasked.config import TransformerConfig
from unmasked.transformer import Transformer
from unmasked_book.exercises.compare import function, number


def size(d: int, f: int, layers: int, vocabulary: int) -> int:
    """Returns the number of parameters of a Transformer with one table for all embeddings."""
    words: Any = {"source_vocab": vocabulary, "target_vocab": vocabulary, "tie_embeddings": True}
    config = TransformerConfig(**words, d_model=d, n_heads=2, d_ff=f, n_layers=layers)
    return Transformer(config).count_parameters()


CHECKS = {
    "1": number(4_204_032),  # of one decoder layer with d = 512, f = 2048 and all biases
    "2": function("size", size, (4, 8, 1, 10), (16, 24, 3, 100)),
}
