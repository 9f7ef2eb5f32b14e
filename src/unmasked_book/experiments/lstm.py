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
        read, last = self.encode(source, real.flatten(1).sum(-1).cpu())
        states, _ = self.decoder(self.dropout(self.target_embedding(target)), last)
        read = read[:, None]
        found = attention(self.query(states)[:, None], read, read, real)[:, 0]
        combined = self.dropout(torch.tanh(self.combine(torch.cat([states, found], dim=-1))))
        return cast(Tensor, self.generator(combined))

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """A state for each word [B, S, D], and where the decoder begins: twice [L, B, D]."""
        words = self.dropout(self.source_embedding(source))
        packed = nn.utils.rnn.pack_padded_sequence(
            words, lengths, batch_first=True, enforce_sorted=False
        )  # so that the way back begins at the last word and not at the padding
        states, (h, c) = self.encoder(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            states, batch_first=True, total_length=source.shape[1]
        )
        return states, (both_ways(h), both_ways(c))


def both_ways(state: Tensor) -> Tensor:
    """[2 L, B, D / 2] → [L, B, D]: what both directions of a layer know, side by side."""
    pairs = state.view(-1, 2, *state.shape[1:])
    return torch.cat([pairs[:, 0], pairs[:, 1]], dim=-1).contiguous()


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
