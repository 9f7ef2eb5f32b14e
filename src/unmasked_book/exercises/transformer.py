"""Chapter 7's exercises."""

from __future__ import annotations

from collections.abc import Callable

from unmasked.config import TransformerConfig
from unmasked.transformer import Transformer
from unmasked_book.exercises.compare import same_number


def decoder_layer(answer: float) -> str | None:
    """Parameters of one decoder layer with d = 512, f = 2048 and all biases."""
    return same_number(answer, 4_204_032)


def size(answer: Callable[[int, int, int, int], int]) -> str | None:
    """All parameters, the table counted once."""
    for d, f, layers, vocabulary in ((4, 8, 1, 10), (16, 24, 3, 100)):
        words = {"source_vocab": vocabulary, "target_vocab": vocabulary, "tie_embeddings": True}
        config = TransformerConfig(d_model=d, n_heads=2, d_ff=f, n_layers=layers, **words)  # type: ignore[arg-type]
        expected = Transformer(config).count_parameters()
        if wrong := same_number(answer(d, f, layers, vocabulary), expected):
            return f"{wrong} (size({d}, {f}, {layers}, {vocabulary}))"
    return None


CHECKS = (decoder_layer, size)
