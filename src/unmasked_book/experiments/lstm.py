"""What came before: a recurrent encoder-decoder, with attention and without, to compare with.

An LSTM reads the source in both directions, another writes the target and looks at what was read
(Bahdanau et al. 2015, in the simpler form of Luong et al. 2015). With input feeding it also sees,
at each word, what it found at the one before. It has the Transformer's calls.
Shapes: B batch, S source, T target, D width, V vocabulary, L layers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from math import isqrt
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from unmasked.attention import attention
from unmasked.errors import check_probability, check_tokens, check_whole, invalid
from unmasked.masks import padding_mask
from unmasked.positions import sinusoids


class Read(NamedTuple):
    """What the encoder hands to the decoder."""

    states: Tensor  # [B, S, D], one for each word
    last: tuple[Tensor, Tensor]  # twice [L, B, D]: where the decoder begins


class Recurrent(nn.Module):
    """Without attention, all that the decoder knows of the source is the encoder's last state.

    With `places` the Transformer's sinusoids are added to its embeddings.
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        d_model: int,
        *,
        n_layers: int = 1,
        dropout: float = 0.0,
        attends: bool = True,
        feeds: bool = False,
        places: bool = False,
    ) -> None:
        super().__init__()
        for name, value in (("n_layers", n_layers), ("d_model", d_model)):
            check_whole(name, value, 1)
        check_probability("dropout", dropout)
        if d_model % 2:
            raise invalid("d_model", "an even width", d_model, "each direction has half of it")
        if feeds and not attends:
            raise invalid("feeds", "attention", "attends=False", "there is nothing to feed")
        self.source_embedding = nn.Embedding(source_vocab, d_model)
        self.target_embedding = nn.Embedding(target_vocab, d_model)
        between = dropout if n_layers > 1 else 0.0
        self.encoder = nn.LSTM(d_model, d_model // 2, n_layers, batch_first=True,
                               dropout=between, bidirectional=True)  # fmt: skip
        self.feeds, self.places = feeds, places
        read = 2 * d_model if feeds else d_model
        self.decoder = nn.LSTM(read, d_model, n_layers, batch_first=True, dropout=between)
        self.query = nn.Linear(d_model, d_model, bias=False) if attends else None
        self.combine = nn.Linear(2 * d_model if attends else d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.generator = nn.Linear(d_model, target_vocab, bias=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """[B, S], [B, T] → logits [B, T, V]; sources are padded on the right."""
        hidden = self.decode(target, self.encode(source), source_mask=padding_mask(source))
        return cast(Tensor, self.generator(hidden))

    def encode(self, source: Tensor) -> Read:
        check_tokens("source", source, self.source_embedding.num_embeddings)
        words = self.dropout(self.placed(self.source_embedding(source)))
        lengths = padding_mask(source).flatten(1).sum(-1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(
            words, lengths, batch_first=True, enforce_sorted=False
        )  # so that the way back begins at the last word and not at the padding
        states, (h, c) = self.encoder(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(
            states, batch_first=True, total_length=source.shape[1]
        )
        return Read(states, (both_ways(h), both_ways(c)))

    def decode(self, target: Tensor, memory: Read, *, source_mask: Tensor) -> Tensor:
        """[B, T] → [B, T, D]; `source_mask` [B, 1, 1, S], as for the Transformer."""
        check_tokens("target", target, self.target_embedding.num_embeddings)
        words, state = self.dropout(self.placed(self.target_embedding(target))), memory.last
        if not self.feeds:
            states, _ = self.decoder(words, state)
            return self.look(states, memory, source_mask)
        found = [torch.zeros_like(words[:, 0])]
        for word in words.unbind(1):
            states, state = self.decoder(torch.cat([word, found[-1]], dim=-1)[:, None], state)
            found.append(self.look(states, memory, source_mask)[:, 0])
        return torch.stack(found[1:], dim=1)

    def placed(self, words: Tensor) -> Tensor:
        return words + sinusoids(0, *words.shape[1:]).to(words) if self.places else words

    def look(self, states: Tensor, memory: Read, source_mask: Tensor) -> Tensor:
        """What the decoder makes of its states and of what it finds in the source: [B, T, D]."""
        if self.query is not None:
            seen = memory.states[:, None]
            found = attention(self.query(states)[:, None], seen, seen, source_mask)[:, 0]
            states = torch.cat([states, found], dim=-1)
        return cast(Tensor, self.dropout(torch.tanh(self.combine(states))))


@torch.no_grad()
def open_forget_gates(model: Recurrent, bias: float) -> None:
    """Starts every forget gate with this bias: at 0 it keeps half of the memory, at 3, 95%."""
    for lstm in (model.encoder, model.decoder):
        for name, parameter in lstm.named_parameters():
            if name.startswith("bias"):  # one of two that are added
                gate = slice(lstm.hidden_size, 2 * lstm.hidden_size)  # input, forget, new, output
                parameter[gate] = bias if name.startswith("bias_ih") else 0.0


def both_ways(state: Tensor) -> Tensor:
    """[2 L, B, D / 2] → [L, B, D]: what both directions of a layer know, side by side."""
    pairs = state.view(-1, 2, *state.shape[1:])
    return torch.cat([pairs[:, 0], pairs[:, 1]], dim=-1).contiguous()


def count_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def count_multiplied(model: nn.Module) -> int:
    """The parameters that each token is multiplied by: all matrices, but no table of embeddings."""
    tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
    return sum(p.numel() for p in model.parameters() if p.dim() > 1 and id(p) not in tables)


def recurrent_of_size(
    size: int,
    source_vocab: int,
    target_vocab: int,
    *,
    count: Callable[[nn.Module], int] = count_parameters,
    **options: Any,
) -> int:
    """The even width at which a `Recurrent` with these options counts closest to this size."""
    check_whole("size", size, 1)

    def counted(d_model: int) -> int:
        with torch.device("meta"):
            return count(Recurrent(source_vocab, target_vocab, d_model, **options))

    widths = range(2, isqrt(size) + 4, 2)  # a model of width D has matrices of more than D²
    above = bisect_left(widths, size, key=counted)
    return min(widths[max(0, above - 1) : above + 1], key=lambda width: abs(counted(width) - size))


def recurrent_like(model: nn.Module, words: int, seed: int, **options: Any) -> Recurrent:
    """With these options and as many parameters as the model, its weights drawn by the seed."""
    width = recurrent_of_size(count_parameters(model), words, words, **options)
    torch.manual_seed(seed)
    return Recurrent(words, words, width, **options)
