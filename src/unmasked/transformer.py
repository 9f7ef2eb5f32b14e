"""The whole model: two sequences of tokens in, one row of logits for each target position out."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from torch import Tensor, nn

from .attention import pair
from .config import TransformerConfig
from .decoder import Decoder, DecoderState
from .dropout import Dropout
from .encoder import Encoder
from .masks import causal_mask, padding_mask
from .positions import LearnedPositions, SinusoidalPositions
from .validation import check_tokens, invalid

__all__ = ["AttentionMaps", "Transformer", "TransformerConfig"]


class AttentionMaps(NamedTuple):
    """The weights of every layer, each [B, H, queries, keys]."""

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]


class Embedding(nn.Module):
    """Tokens → vectors: a table, times √D where configured, plus positions, then dropout."""

    def __init__(self, config: TransformerConfig, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, config.d_model)
        kinds = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}
        self.positions = kinds[config.positions](config.d_model, config.max_len)
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.dropout = Dropout(config.dropout)

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:  # [B, T] → [B, T, D]
        x = self.positions(self.tokens(tokens) * self.scale, start)
        embedded: Tensor = self.dropout(x)
        return embedded


class Generator(nn.Linear):
    """Vectors → logits over the target vocabulary: [..., D] → [..., V]."""

    def log_probabilities(self, x: Tensor) -> Tensor:
        """What beam search adds up: the logarithm of the softmax of the logits."""
        return self(x).log_softmax(-1)  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """The encoder-decoder of *Attention Is All You Need*, and its relatives by configuration.

    Padding is token 0: the masks are made from the tokens unless they are given.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = Embedding(config, config.source_vocab)
        self.target_embedding = Embedding(config, config.target_vocab)
        self.encoder = Encoder(config, config.n_layers, config.has_final_norm)
        self.decoder = Decoder(config, config.decoder_layers, config.has_final_norm)
        self.generator = Generator(config.d_model, config.target_vocab, bias=config.output_bias)
        if config.tie_embeddings:
            self.generator.weight = self.target_embedding.tokens.weight
        if config.tie_embeddings is True:
            self.source_embedding.tokens.weight = self.target_embedding.tokens.weight
        self.initialise()

    def initialise(self) -> None:
        """Glorot-uniform for every matrix; the embeddings as the configuration says."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        if self.config.embedding_std is not None:
            for embedding in (self.source_embedding, self.target_embedding):
                nn.init.normal_(embedding.tokens.weight, std=self.config.embedding_std)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, AttentionMaps]:
        """[B, S], [B, T] → logits [B, T, V], and with `need_weights` the attention maps too."""
        if source_mask is None:
            source_mask = padding_mask(source)
        memory, encoder_maps = pair(
            self.encode(source, source_mask=source_mask, need_weights=need_weights)
        )
        x, decoder_maps = pair(
            self.decode(
                target,
                memory,
                source_mask=source_mask,
                target_mask=target_mask,
                need_weights=need_weights,
            )
        )
        logits: Tensor = self.generator(x)
        if encoder_maps is None or decoder_maps is None:
            return logits
        return logits, AttentionMaps(encoder_maps, *decoder_maps)

    def encode(
        self, source: Tensor, *, source_mask: Tensor | None = None, need_weights: bool = False
    ) -> Any:
        """[B, S] → the memory [B, S, D], and with `need_weights` the weights of each layer."""
        check_tokens("source", source, self.config.source_vocab)
        mask = padding_mask(source) if source_mask is None else source_mask
        return self.encoder(self.source_embedding(source), mask=mask, need_weights=need_weights)

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        *,
        source_mask: Tensor | None,
        target_mask: Tensor | None = None,
        state: DecoderState | None = None,
        need_weights: bool = False,
    ) -> Any:
        """[B, T], [B, S, D] → [B, T, D], one step before the logits, and the weights if needed.

        `source_mask` hides the memory's padding (None: there is none); the default `target_mask`
        is causal and hides the target's. With a `state` (from `start`) the target holds only the
        tokens that are new.
        """
        check_tokens("target", target, self.config.target_vocab)
        if target.shape[0] != memory.shape[0]:
            fix = "give each source sentence one target"
            raise invalid("target", f"a batch of {memory.shape[0]}", target.shape[0], fix)
        start = 0 if state is None else state.length
        real = padding_mask(target)
        if state is not None:
            real = state.extend(real)
        if target_mask is None:
            target_mask = real & causal_mask(target.shape[1], past=start, device=target.device)
        x = self.target_embedding(target, start)
        x, maps = pair(
            self.decoder(
                x,
                memory,
                mask=target_mask,
                memory_mask=source_mask,
                state=state,
                need_weights=need_weights,
            )
        )
        if maps is None:
            return x
        return x, ([own for own, _ in maps], [across for _, across in maps])

    def start(self, capacity: int = 32) -> DecoderState:
        """An empty state for `decode`, with room for `capacity` tokens before it has to grow."""
        return DecoderState(len(self.decoder.layers), capacity)

    def count_parameters(self) -> int:
        """Numbers that are trained; what is tied counts once."""
        return sum(parameter.numel() for parameter in self.parameters())
