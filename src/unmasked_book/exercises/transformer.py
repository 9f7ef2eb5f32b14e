"""Chapter 7's exercises."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from unmasked.config import TransformerConfig
from unmasked.tokens import BOS
from unmasked.transformer import Transformer
from unmasked_book.exercises.by_heart import by_heart
from unmasked_book.exercises.compare import same_number, same_tensor


def decoder_layer(answer: float) -> str | None:
    """Parameters of one decoder layer with d = 512, f = 2048 and all biases."""
    return same_number(answer, 4_204_032)


def small(d: int, f: int, layers: int, vocabulary: int, tied: bool = True) -> Transformer:
    """With biases: what the exercises count and write with."""
    options = {"source_vocab": vocabulary, "target_vocab": vocabulary, "tie_embeddings": tied}
    return Transformer(
        TransformerConfig(d_model=d, n_heads=2, d_ff=f, n_layers=layers, **options)  # type: ignore[arg-type]
    ).eval()


def size(answer: Callable[[int, int, int, int], int]) -> str | None:
    """All parameters, the table counted once."""
    for sizes in ((4, 8, 1, 10), (16, 24, 3, 100)):
        if wrong := same_number(answer(*sizes), small(*sizes).count_parameters()):
            return f"{wrong} (size{sizes})"
    return None


def likeliest(answer: Callable[[Transformer, Tensor, int], Tensor]) -> str | None:
    """The likeliest word at each step: [B, n]."""
    torch.manual_seed(0)
    model, source = small(16, 32, 1, 12, tied=False), torch.tensor([[3, 4, 5, 2], [6, 2, 0, 0]])
    target = torch.full((2, 1), BOS)
    for _ in range(5):
        target = torch.cat([target, model(source, target)[:, -1:].argmax(-1)], dim=1)
    expected = target[:, 1:]
    return same_tensor(answer(model, source, 5), expected, "likeliest(model, source, 5)")


CHECKS = (decoder_layer, size, likeliest)
PROJECT = by_heart
