"""What came before: a recurrent encoder-decoder with attention, to compare with.

An LSTM reads the source in both directions, another writes the target and looks at what was read
(Bahdanau et al. 2015, in the simpler form of Luong et al. 2015). Called like the Transformer.
Shapes: B batch, S source, T target, D width, V vocabulary, L layers.
"""

from bisect import bisect_left
from math import isqrt
from typing import Any, cast

import torch
from torch import Tensor, nn

from unmasked.attention import attention
from unmasked.masks import padding_mask


class Recurrent(nn.Module):
    """For so many words of source and target. Its width is even: each direction has half of it."""

    def __init__(
        self, source: int, target: int, d_model: int, *, n_layers: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.source_embedding = nn.Embedding(source, d_model)
        self.target_embedding = nn.Embedding(target, d_model)
        between = dropout if n_layers > 1 else 0.0
        self.encoder = nn.LSTM(d_model, d_model // 2, n_layers, batch_first=True,
                               dropout=between, bidirectional=True)  # fmt: skip
        self.decoder = nn.LSTM(d_model, d_model, n_layers, batch_first=True, dropout=between)
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.combine = nn.Linear(2 * d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.generator = nn.Linear(d_model, target, bias=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """[B, S], [B, T] → logits [B, T, V]; sources are padded on the right."""
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
    """[2 L, B, D / 2] → [L, B, D]: what both directions of a layer know, side by side."""
    return state.unflatten(0, (-1, 2)).transpose(1, 2).flatten(2)


def count_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def recurrent_like(model: nn.Module, words: int, seed: int, **options: Any) -> Recurrent:
    """With these options and about as many parameters as the model, its weights drawn by the seed.

    Its width is the even one at which it comes closest.
    """
    size = count_parameters(model)

    def counted(d_model: int) -> int:
        with torch.device("meta"):
            return count_parameters(Recurrent(words, words, d_model, **options))

    widths = range(2, isqrt(size) + 4, 2)  # a model of width D has matrices of more than D²
    above = bisect_left(widths, size, key=counted)
    near = widths[max(0, above - 1) : above + 1]
    torch.manual_seed(seed)
    return Recurrent(words, words, min(near, key=lambda n: abs(counted(n) - size)), **options)
