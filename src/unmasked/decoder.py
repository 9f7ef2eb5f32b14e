"""The decoder (section 3.1): looks back at what is written, and across at the encoder's memory."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .attention import AttentionMaps, KeyValueCache, MultiHeadAttention
from .config import LayerConfig
from .encoder import Residual
from .errors import check_mask, check_type, check_vectors, invalid
from .feed_forward import FeedForward


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, feed-forward, each inside a residual."""

    def __init__(self, config: LayerConfig) -> None:
        check_type("config", config, LayerConfig)
        super().__init__()
        width, heads, d_ff = config.d_model, config.n_heads, config.d_ff
        self.config = config
        self.self_attention = MultiHeadAttention(width, heads, **config.attention_options())
        self.cross_attention = MultiHeadAttention(width, heads, **config.attention_options())
        self.feed_forward = FeedForward(width, d_ff, **config.feed_forward_options())
        self.self_residual = Residual(config)
        self.cross_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        state: LayerState | None = None,
        maps: AttentionMaps | None = None,
    ) -> Tensor:
        past, read = (None, None) if state is None else state
        own, across = (None, None) if maps is None else (maps.decoder, maps.cross)
        x = self.self_residual(x, self.self_attention, mask=mask, cache=past, maps=own)
        x = self.cross_residual(
            x, self.cross_attention, key=memory, mask=memory_mask, cache=read, maps=across
        )
        return self.feed_forward_residual(x, self.feed_forward)


class Decoder(nn.Module):
    """A stack of layers, and a last norm where the configuration has one.

    With a `state`, x holds only the new positions [B, T, D]; the state remembers the others.
    """

    def __init__(self, config: LayerConfig, n_layers: int, final_norm: bool = False) -> None:
        check_type("config", config, LayerConfig)
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(n_layers))
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_eps) if final_norm else None

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        state: DecoderState | None = None,
        maps: AttentionMaps | None = None,
    ) -> Tensor:
        check_vectors("x", x, self.config.d_model)
        check_vectors("memory", memory, self.config.d_model, len(x))
        check_maps(maps)
        batch, length, _ = x.shape
        before = 0 if state is None else state.check(len(self.layers), batch, memory.shape[1])
        check_mask("mask", mask, (batch, self.config.n_heads, length, before + length))
        memory_scores = (batch, self.config.n_heads, length, memory.shape[1])
        check_mask("memory_mask", memory_mask, memory_scores)
        states = [None] * len(self.layers) if state is None else state.layers
        for layer, layer_state in zip(self.layers, states, strict=True):
            x = layer(x, memory, mask=mask, memory_mask=memory_mask, state=layer_state, maps=maps)
        return x if self.norm is None else self.norm(x)


class LayerState(NamedTuple):
    """What one layer remembers between steps."""

    past: KeyValueCache  # of the tokens so far
    memory: KeyValueCache  # of what the encoder made


class DecoderState:
    """What a decoder remembers between steps, layer by layer, and which past tokens are real."""

    def __init__(self, n_layers: int, capacity: int = 32) -> None:
        self.layers = [
            LayerState(KeyValueCache(capacity), KeyValueCache(fixed=True)) for _ in range(n_layers)
        ]
        self.real: Tensor | None = None  # [B, 1, 1, length]: what the past's padding mask was
        self.length = 0  # how many tokens have gone through

    def extend(self, real: Tensor) -> Tensor:
        """Adds the padding mask of new tokens and returns that of all of them."""
        self.real = real if self.real is None else torch.cat([self.real, real], dim=-1)
        self.length += real.shape[-1]
        return self.real

    def check(self, n_layers: int, batch: int, memory_length: int) -> int:
        """That it is of this decoder and of these sentences; how many tokens its layers hold."""
        if len(self.layers) != n_layers:
            fix = "begin with this model's start()"
            raise invalid("state", f"{n_layers} layers", len(self.layers), fix)
        fix = "begin with a new state for other sentences"
        if self.real is not None and len(self.real) != batch:
            raise invalid("state", f"a batch of {batch}", len(self.real), fix)
        past = 0
        for layer in self.layers:
            past = max(past, layer.past.check(batch, "state"))
            if layer.memory.check(batch, "state") not in (0, memory_length):
                expected = f"a memory of {memory_length} positions"
                raise invalid("state", expected, f"one of {layer.memory.length}", fix)
        return past

    def select(self, rows: Tensor) -> None:
        """Keeps only these rows of the batch: the others are finished."""
        self.real = None if self.real is None else self.real[rows]
        for layer in self.layers:
            layer.past.select(rows)
            layer.memory.select(rows)


def check_maps(maps: AttentionMaps | None) -> None:
    if maps is not None:
        check_type("maps", maps, AttentionMaps)
