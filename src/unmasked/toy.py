"""A task that trains in seconds and is hopeless without order: to spell words backwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_lowercase
from typing import Any

import torch
from torch import Tensor

from .config import TransformerConfig
from .data.batching import pad, until_end
from .search import greedy
from .special import BOS, EOS
from .transformer import Transformer
from .validation import check_at_least, invalid

FIRST = EOS + 1  # the token of "a"
VOCABULARY = FIRST + len(ascii_lowercase)


def draw(count: int, shortest: int, longest: int, generator: torch.Generator) -> list[str]:
    """Words of random letters, of random lengths from `shortest` to `longest`."""
    check_at_least("count", count, 1)
    check_at_least("shortest", shortest, 1)
    check_at_least("longest", longest, shortest)
    lengths = torch.randint(shortest, longest + 1, (count,), generator=generator).tolist()
    letters = torch.randint(len(ascii_lowercase), (sum(lengths),), generator=generator).tolist()
    stream = iter([ascii_lowercase[letter] for letter in letters])
    return ["".join(next(stream) for _ in range(length)) for length in lengths]


def encode(words: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Words → source [B, S], and target [B, T]: BOS, the letters backwards, EOS."""
    for word in words:
        if not word or set(word) - set(ascii_lowercase):
            raise invalid("words", "letters from a to z", repr(word), "leave all others out")
    numbers = [[FIRST + ascii_lowercase.index(letter) for letter in word] for word in words]
    return pad(numbers), pad([[BOS, *reversed(word), EOS] for word in numbers])


def decode(tokens: Tensor) -> list[str]:
    """Tokens [B, T] → words: the letters before the first EOS."""
    return [
        "".join(ascii_lowercase[n - FIRST] for n in until_end(row) if n >= FIRST)
        for row in tokens.tolist()
    ]


def small_model(*, seed: int = 0, **changes: Any) -> Transformer:
    """One layer of width 64, drawn from the seed: enough for this task."""
    torch.manual_seed(seed)
    sizes = {"d_model": 64, "n_heads": 4, "n_layers": 1, "d_ff": 128, "max_len": 64}
    vocabularies = {"source_vocab": VOCABULARY, "target_vocab": VOCABULARY}
    options: dict[str, Any] = {**vocabularies, **sizes, "dropout": 0.0, "norm": "pre", **changes}
    return Transformer(TransformerConfig(**options))


def batches(
    steps: int, *, size: int = 64, shortest: int = 3, longest: int = 9, seed: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """Fresh words for every step of training, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield encode(draw(size, shortest, longest, generator))


def spell(model: Transformer, words: Sequence[str]) -> list[str]:
    """What the model writes by itself for each word, letter by letter."""
    source, _ = encode(words)
    return decode(greedy(model, source, max_new_tokens=source.shape[1] + 1))


def share_right(model: Transformer, words: Sequence[str]) -> float:
    """How many of the words the model spells backwards without a mistake, from 0 to 1."""
    written = spell(model, words)
    return sum(a == b[::-1] for a, b in zip(written, words, strict=True)) / len(words)
