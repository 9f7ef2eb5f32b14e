"""Defines the decoder (section 3.1), which attends to earlier target tokens and encoder outputs."""

from collections.abc import Sequence

from torch import Tensor, nn

from .attention import AttentionMaps, Look, MultiHeadAttention
from .config import LayerConfig
from .encoder import Residual, Stack
from .errors import require_type
from .feed_forward import FeedForward


class DecoderLayer(nn.Module):
    """A decoder layer has self-attention, cross-attention to the memory, and a feed-forward net."""

    def __init__(self, config: LayerConfig) -> None:
        require_type("config", config, LayerConfig)
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
        mask: Look | Tensor | None = None,
        memory_mask: Look | Tensor | None = None,
    ) -> Tensor:
        """Applies the layer: [B, T, D], [B, S, D] → [B, T, D]. Each mask may be a `Look`."""
        x = self.self_residual(x, self.self_attention, look=mask)
        x = self.cross_residual(x, self.cross_attention, y=memory, look=memory_mask)
        return self.feed_forward_residual(x, self.feed_forward)


class Decoder(Stack):
    """The decoder applies its layers to embedded target tokens and the memory, encoder outputs."""

    kind = DecoderLayer

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        maps: AttentionMaps | None = None,
        looks: Sequence[tuple[Look, Look]] | None = None,
    ) -> Tensor:
        """Applies layers: [B, T, D], [B, S, D] → [B, T, D]. `looks`, two a layer, replace masks."""
        if looks is None:
            back, across = Look(mask, maps and maps.decoder), Look(memory_mask, maps and maps.cross)
            looks = [(back, across)] * len(self.layers)
        for layer, (back, across) in zip(self.layers, looks, strict=True):
            x = layer(x, memory, mask=back, memory_mask=across)
        return x if self.norm is None else self.norm(x)
