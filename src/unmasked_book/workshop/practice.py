"""A Transformer of the reader's pieces at work: with trained weights, and trained anew."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

import unmasked
from unmasked import plain
from unmasked.errors import require_whole
from unmasked.text.corpus import Corpus
from unmasked.text.sources import Data
from unmasked.training import fit
from unmasked_book.captions import CAPTIONS

SIZES = (64, 4, 2, 256, 0.0)  # width, heads, layers, inner width, dropout


def translated(mine: Mapping[str, Any]) -> dict[str, str]:
    """Three captions, by a reader's model and search with the weights of de-en.

    What is written after <eos> is shown, too.
    """
    translator, found = unmasked.load("de-en"), {}
    c = translator.model.config
    sizes = (c.source_vocab, c.target_vocab, c.d_model, c.n_heads, c.n_layers, c.d_ff)
    model: nn.Module = mine["Transformer"](*sizes)
    weights = plain.Transformer.from_pretrained("de-en").state_dict()
    model.load_state_dict(weights, strict=False)
    for caption in CAPTIONS[:3]:
        [row] = mine["generate"](model.eval(), translator.tokens([caption.german]), 40).tolist()
        found[caption.german] = translator.target.decode([token for token in row if token > 2])
    return found


def learner(mine: Mapping[str, Any], data: Data, sizes: tuple[Any, ...] = SIZES) -> nn.Module:
    model: nn.Module = mine["Transformer"](len(data.source), len(data.target), *sizes)
    return model


def practise(mine: Mapping[str, Any], model: nn.Module, data: Data, steps: int) -> list[float]:
    """The loss of every step, with the reader's own loss."""
    require_whole("steps", steps, 1)
    shown = tqdm(total=steps, desc="training", disable=None)

    def loss(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        shown.update()
        value: Tensor = mine["loss"](model, source, target)
        return value

    with shown:
        return fit(model, loss, batches(data, steps))


def batches(data: Data, steps: int, size: int = 64) -> Iterator[tuple[Tensor, Tensor]]:
    corpus = Corpus.of(data.source, data.target, data.training)
    draws = torch.Generator().manual_seed(0)
    for _ in range(steps):
        chosen = torch.randint(len(corpus.pairs), (size,), generator=draws).tolist()
        yield corpus.batch([corpus.pairs[number] for number in chosen])
