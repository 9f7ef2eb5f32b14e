"""Lets the reader's Transformer translate with trained weights, and trains it from scratch."""

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


def translated(mine: Mapping[str, Any]) -> dict[str, str]:
    """Returns the reader's translations of three captions with de-en's weights, past <eos>, too."""
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


def practise(
    mine: Mapping[str, Any], model: nn.Module, data: Data, steps: int, *, quiet: bool = False
) -> list[float]:
    """Trains a model with the reader's loss function, and returns the loss of every step."""
    require_whole("steps", steps, 1)
    shown = tqdm(total=steps, desc="training", disable=quiet)

    def loss(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        shown.update()
        return mine["loss"](model, source, target)

    with shown:
        return fit(model, loss, batches(data.corpus(), steps))


def batches(corpus: Corpus, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    draws = torch.Generator().manual_seed(0)
    for _ in range(steps):
        chosen = torch.randint(len(corpus), (64,), generator=draws).tolist()
        yield corpus.batch([corpus.pairs[number] for number in chosen])
