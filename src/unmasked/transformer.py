"""The whole model: two sequences of tokens in, one row of logits for each target position out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from torch import Tensor, nn

from .attention import pair
from .config import TransformerConfig
from .decoder import Decoder, DecoderState
from .dropout import Dropout
from .encoder import Encoder
from .masks import causal_mask, padding_mask
from .positions import LearnedPositions, SinusoidalPositions
from .validation import check_mask, check_tokens, check_type, check_vectors, invalid

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
        """The logarithm of the softmax of the logits, over the whole vocabulary."""
        return self(x).log_softmax(-1)  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """The encoder-decoder of *Attention Is All You Need*, and its relatives by configuration.

    Padding is token 0: the masks are made from the tokens unless they are given.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        check_type("config", config, TransformerConfig)
        self.config = config
        self.source_embedding = Embedding(config, config.source_vocab)
        self.target_embedding = Embedding(config, config.target_vocab)
        self.encoder = Encoder(config, config.n_layers, config.has_final_norm)
        self.decoder = Decoder(config, config.decoder_layers, config.has_final_norm)
        self.generator = Generator(config.d_model, config.target_vocab, bias=config.output_bias)
        self.tie()
        self.initialise()

    def tie(self) -> None:
        """Lets the embeddings that the configuration ties share their storage."""
        if self.config.tie_embeddings:
            self.generator.weight = self.target_embedding.tokens.weight
        if self.config.tie_embeddings is True:
            self.source_embedding.tokens.weight = self.target_embedding.tokens.weight

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.tie()  # some conversions, to_empty among them, make new parameters
        return self

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        result = super().load_state_dict(*args, **kwargs)
        self.tie()  # assign=True makes new parameters too
        return result

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
        memory, encoder_maps = pair(
            self.encode(source, source_mask=source_mask, need_weights=need_weights)
        )
        if source_mask is None:
            source_mask = padding_mask(source)
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
        length = source.shape[1]
        check_mask("source_mask", mask, (len(source), self.config.n_heads, length, length))
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
        is causal and hides the target's. With a `state` (from `start`, one for each memory) the
        target holds only the tokens that are new.
        """
        check_tokens("target", target, self.config.target_vocab)
        check_vectors("memory", memory, self.config.d_model)
        batch, length = target.shape
        if batch != len(memory):
            fix = "give each source sentence one target"
            raise invalid("target", f"a batch of {len(memory)}", batch, fix)
        start = 0 if state is None else state.length
        heads = self.config.n_heads
        if source_mask is not None:
            check_mask("source_mask", source_mask, (batch, heads, length, memory.shape[1]))
        if target_mask is not None:
            check_mask("target_mask", target_mask, (batch, heads, length, start + length))
        real = padding_mask(target)
        if state is not None:
            real = state.extend(real)
        if target_mask is None:
            target_mask = real & causal_mask(length, past=start, device=target.device)
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
