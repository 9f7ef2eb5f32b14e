"""The decoder (section 3.1): looks back at what is written, and across at the encoder's memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .attention import MultiHeadAttention, pair
from .cache import KeyValueCache
from .config import LayerConfig
from .feed_forward import FeedForward
from .residual import Residual
from .validation import check_type, check_vectors, invalid


class LayerState:
    """What one layer remembers between steps: its past tokens, and the encoder's memory."""

    def __init__(self, capacity: int = 32) -> None:
        self.past = KeyValueCache(capacity)
        self.memory = KeyValueCache(fixed=True)


class DecoderState:
    """What a decoder remembers between steps, layer by layer, and which past tokens are real."""

    def __init__(self, n_layers: int, capacity: int = 32) -> None:
        self.layers = [LayerState(capacity) for _ in range(n_layers)]
        self.real: Tensor | None = None  # [B, 1, 1, length]: what the past's padding mask was
        self.length = 0  # how many tokens have gone through

    def extend(self, real: Tensor) -> Tensor:
        """Adds the padding mask of new tokens and returns that of all of them."""
        if self.real is not None and len(self.real) != len(real):
            fix = "begin with a new state for other sentences"
            raise invalid("state", f"a batch of {len(real)}", len(self.real), fix)
        self.real = real if self.real is None else torch.cat([self.real, real], dim=-1)
        self.length += real.shape[-1]
        return self.real

    def select(self, rows: Tensor) -> None:
        """Keeps only these rows of the batch: the others are finished."""
        self.real = None if self.real is None else self.real[rows]
        for layer in self.layers:
            layer.past.select(rows)
            layer.memory.select(rows)


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, feed-forward, each inside a residual."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        check_type("config", config, LayerConfig)
        self.config = config
        width, heads, options = config.d_model, config.n_heads, config.attention_options()
        self.self_attention = MultiHeadAttention(width, heads, **options)
        self.cross_attention = MultiHeadAttention(width, heads, **options)
        self.feed_forward = FeedForward(width, config.d_ff, **config.feed_forward_options())
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
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, tuple[Tensor, Tensor]]:
        past, across = (None, None) if state is None else (state.past, state.memory)

        y = self.self_residual.enter(x)
        y, self_weights = pair(
            self.self_attention(y, mask=mask, cache=past, need_weights=need_weights)
        )
        x = self.self_residual.leave(x, y)

        y = self.cross_residual.enter(x)
        y, cross_weights = pair(
            self.cross_attention(
                y, key=memory, mask=memory_mask, cache=across, need_weights=need_weights
            )
        )
        x = self.cross_residual.leave(x, y)

        y = self.feed_forward(self.feed_forward_residual.enter(x))
        x = self.feed_forward_residual.leave(x, y)
        if self_weights is None or cross_weights is None:
            return x
        return x, (self_weights, cross_weights)


class Decoder(nn.Module):
    """A stack of layers, and a last norm where the configuration has one.

    With a `state`, x holds only the new positions [B, T, D]; the state remembers the others.
    """

    def __init__(self, config: LayerConfig, n_layers: int, final_norm: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(n_layers))
        self.width = config.d_model
        self.norm = nn.LayerNorm(config.d_model, **config.norm_options()) if final_norm else None

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        state: DecoderState | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        check_vectors("x", x, self.width)
        check_vectors("memory", memory, self.width, len(x))
        if state is not None and len(state.layers) != len(self.layers):
            fix = "begin with this model's start()"
            raise invalid("state", f"{len(self.layers)} layers", len(state.layers), fix)
        states = [None] * len(self.layers) if state is None else state.layers
        maps: list[Any] = []
        for layer, layer_state in zip(self.layers, states, strict=True):
            x, weights = pair(
                layer(
                    x,
                    memory,
                    mask=mask,
                    memory_mask=memory_mask,
                    state=layer_state,
                    need_weights=need_weights,
                )
            )
            maps.append(weights)
        if self.norm is not None:
            x = self.norm(x)
        return (x, maps) if need_weights else x
