"""Makes two small data sets: two pairs of sentences, and words to be spelled backwards.

The first is small enough to be read token by token. The second is learnt in seconds, but only by a
model that knows the order of its tokens.
"""

from collections.abc import Iterator, Sequence
from string import ascii_lowercase
from typing import Any

import torch
from torch import Tensor

from unmasked.config import TransformerConfig
from unmasked.search import greedy
from unmasked.tokens import BOS, EOS, pad, until_end
from unmasked.transformer import Transformer

GERMAN = ["<pad>", "<bos>", "<eos>", "ich", "hätte", "gern", "ein", "bier", "danke"]
ENGLISH = ["<pad>", "<bos>", "<eos>", "i'd", "like", "a", "beer", "thank", "you"]
PAIRS = [("ich hätte gern ein bier", "i'd like a beer"), ("danke", "thank you")]


def sentence_tokens(sentences: Sequence[str], vocabulary: Sequence[str]) -> Tensor:
    """Returns the token IDs of the sentences' words, padded: [B, longest]."""
    return pad([[vocabulary.index(word) for word in text.split()] for text in sentences])


def sentence_words(tokens: Tensor, vocabulary: Sequence[str]) -> list[list[str]]:
    """Returns the words of each row of token IDs, padding included."""
    return [[vocabulary[token] for token in row] for row in tokens.tolist()]


def sentence_batch() -> tuple[Tensor, Tensor]:
    """Returns `PAIRS` as token IDs: source [2, 6] with <eos>, target [2, 6] with <bos>, <eos>."""
    source = sentence_tokens([f"{german} <eos>" for german, _ in PAIRS], GERMAN)
    return source, sentence_tokens([f"<bos> {english} <eos>" for _, english in PAIRS], ENGLISH)


FIRST_LETTER = EOS + 1  # the token of "a"
LETTERS = FIRST_LETTER + len(ascii_lowercase)


def random_words(count: int, shortest: int, longest: int, generator: torch.Generator) -> list[str]:
    """Returns `count` words of random letters, with `shortest` to `longest` letters each."""
    lengths = torch.randint(shortest, longest + 1, (count,), generator=generator).tolist()
    letters = torch.randint(len(ascii_lowercase), (sum(lengths),), generator=generator).tolist()
    stream = iter([ascii_lowercase[letter] for letter in letters])
    return ["".join(next(stream) for _ in range(length)) for length in lengths]


def encode_words(words: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Returns words as token IDs: source [B, S]; target [B, T]: BOS, the letters backwards, EOS."""
    numbers = [[FIRST_LETTER + ascii_lowercase.index(letter) for letter in word] for word in words]
    return pad(numbers), pad([[BOS, *reversed(word), EOS] for word in numbers])


def speller(*, seed: int = 0, **changes: Any) -> Transformer:
    """Returns a Transformer with one layer of width 64, enough to spell; `changes` are options."""
    torch.manual_seed(seed)
    sizes: Any = {"d_model": 64, "n_heads": 4, "n_layers": 1, "d_ff": 128, "max_len": 64}
    options = {"source_vocab": LETTERS, "target_vocab": LETTERS, "dropout": 0.0, "norm": "pre"}
    return Transformer(TransformerConfig(**{**sizes, **options, **changes}))


def spelling_batches(
    steps: int, *, size: int = 64, shortest: int = 3, longest: int = 9, seed: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields `steps` batches (source, target) of `size` random words, the same for one seed."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield encode_words(random_words(size, shortest, longest, generator))


def spell(model: Transformer, words: Sequence[str]) -> list[str]:
    """Returns the letters that the model writes for each word by greedy search."""
    source = encode_words(words)[0].to(next(model.parameters()).device)
    found = greedy(model, source, max_new_tokens=source.shape[1] + 1)
    return [
        "".join(ascii_lowercase[n - FIRST_LETTER] for n in until_end(row) if n >= FIRST_LETTER)
        for row in found.tolist()
    ]


def share_spelled(model: Transformer, words: Sequence[str]) -> float:
    """Returns the share of words, from 0 to 1, that the model spells backwards without an error."""
    written = spell(model, words)
    return sum(a == b[::-1] for a, b in zip(written, words, strict=True)) / len(words)
