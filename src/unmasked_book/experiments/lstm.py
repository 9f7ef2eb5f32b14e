"""Defines and trains a recurrent encoder-decoder with attention, to compare the Transformer with.

Shapes: B batch, S source, T target, D width, V vocabulary, L layers.
"""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unmasked.attention import attention
from unmasked.loss import teacher_forcing
from unmasked.masks import padding_mask
from unmasked.text.corpus import Corpus, Pair
from unmasked.tokens import PADDING
from unmasked.training.recipe import Recipe, optimizer_for, rate_at
from unmasked.transformer import evaluating


class Recurrent(nn.Module):
    """A Recurrent encodes by an LSTM in both directions, and decodes by an LSTM with attention.

    After Bahdanau et al. 2015, in the simpler form of Luong et al. 2015. It is called like the
    Transformer. The width must be even: each direction has half of it.
    """

    def __init__(self, words: int, d_model: int, dropout: float) -> None:
        super().__init__()
        self.source_embedding = nn.Embedding(words, d_model)
        self.target_embedding = nn.Embedding(words, d_model)
        self.encoder = nn.LSTM(d_model, d_model // 2, 2, batch_first=True,
                               dropout=dropout, bidirectional=True)  # fmt: skip
        self.decoder = nn.LSTM(d_model, d_model, 2, batch_first=True, dropout=dropout)
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.combine = nn.Linear(2 * d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.generator = nn.Linear(d_model, words, bias=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Returns logits [B, T, V] for token IDs [B, S], padded on the right, and [B, T]."""
        real = padding_mask(source)  # [B, 1, 1, S]
        lengths = real.flatten(1).sum(-1).cpu()  # the way back begins at the last word
        packed = nn.utils.rnn.pack_padded_sequence(
            self.dropout(self.source_embedding(source)), lengths, True, enforce_sorted=False
        )
        states, last = self.encoder(packed)  # [B, S, D], and twice [2 L, B, D / 2]
        read, _ = nn.utils.rnn.pad_packed_sequence(states, True, total_length=source.shape[1])
        words = self.dropout(self.target_embedding(target))
        states, _ = self.decoder(words, tuple(map(both_ways, last)))
        read = read[:, None]
        found = attention(self.query(states)[:, None], read, read, real)[:, 0]
        combined = self.dropout(torch.tanh(self.combine(torch.cat([states, found], dim=-1))))
        return cast(Tensor, self.generator(combined))


def both_ways(state: Tensor) -> Tensor:
    """Puts the states of a layer's two directions side by side: [2 L, B, D / 2] → [L, B, D]."""
    return state.unflatten(0, (-1, 2)).transpose(1, 2).flatten(2)


def count_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def recurrent_like(model: nn.Module, words: int, seed: int, dropout: float = 0.0) -> Recurrent:
    """Returns a Recurrent with about as many parameters as the model, its weights drawn anew."""

    def missed(width: int) -> int:
        with torch.device("meta"):
            return abs(count_parameters(Recurrent(words, width, dropout)) - count_parameters(model))

    width = 2
    while missed(width + 2) < missed(width):
        width += 2
    torch.manual_seed(seed)
    return Recurrent(words, width, dropout)


def learn(
    model: nn.Module, corpus: Corpus, recipe: Recipe, watch: Callable[[], float], every: int
) -> list[float]:
    """Trains model(source, target) → logits in place; returns `watch()` of every `every` steps.

    Dropout is drawn from the recipe's seed. Labels are not smoothed.
    """
    optimizer, stream = optimizer_for(model, recipe), corpus.stream(recipe.tokens, recipe.seed)
    seen = []
    torch.manual_seed(recipe.seed)
    model.train()
    for step in range(1, recipe.steps + 1):
        pairs, _ = next(stream)
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, recipe, 512)  # the paper's own rate is for width 512
        optimizer.zero_grad()
        (summed_loss(model, corpus, pairs) / corpus.labels(pairs)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip or torch.inf)
        optimizer.step()
        if step % every == 0 or step == recipe.steps:
            seen.append(watch())
    model.eval()
    return seen


def cross_entropy(model: nn.Module, corpus: Corpus) -> float:
    """Returns a model's mean cross-entropy on a corpus, in nats a label, with teacher forcing."""
    with evaluating(model):
        batches = corpus.epoch(0, 4096, 0)
        return sum(summed_loss(model, corpus, pairs).item() for pairs in batches) / corpus.labels()


def summed_loss(model: nn.Module, corpus: Corpus, pairs: Sequence[Pair]) -> Tensor:
    device = next(model.parameters()).device
    source, target = (x.to(device) for x in corpus.batch(pairs))
    inputs, labels = teacher_forcing(target)
    real = labels != PADDING
    return F.cross_entropy(model(source, inputs)[real], labels[real], reduction="sum")
