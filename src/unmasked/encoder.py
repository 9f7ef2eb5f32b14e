"""The encoder (section 3.1): every position looks at the whole sentence, again and again."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .attention import MultiHeadAttention, pair
from .config import LayerConfig
from .feed_forward import FeedForward
from .residual import Residual
from .validation import check_type


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside a residual. [B, S, D] → [B, S, D]."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        check_type("config", config, LayerConfig)
        self.config = config
        self.self_attention = MultiHeadAttention(
            config.d_model, config.n_heads, **config.attention_options()
        )
        self.feed_forward = FeedForward(
            config.d_model, config.d_ff, **config.feed_forward_options()
        )
        self.attention_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, need_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        y = self.attention_residual.enter(x)
        y, weights = pair(self.self_attention(y, mask=mask, need_weights=need_weights))
        x = self.attention_residual.leave(x, y)
        y = self.feed_forward(self.feed_forward_residual.enter(x))
        x = self.feed_forward_residual.leave(x, y)
        return x if weights is None else (x, weights)


class Encoder(nn.Module):
    """A stack of layers, and a last norm where the configuration has one."""

    def __init__(self, config: LayerConfig, n_layers: int, final_norm: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(n_layers))
        self.norm = nn.LayerNorm(config.d_model, **config.norm_options()) if final_norm else None

    def forward(
        self, x: Tensor, *, mask: Tensor | None = None, need_weights: bool = False
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        maps: list[Any] = []
        for layer in self.layers:
            x, weights = pair(layer(x, mask=mask, need_weights=need_weights))
            maps.append(weights)
        if self.norm is not None:
            x = self.norm(x)
        return (x, maps) if need_weights else x
