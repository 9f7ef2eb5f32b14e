"""Defines the encoder (section 3.1), whose layers attend from each position to all others."""

from collections.abc import Callable

from torch import Tensor, nn

from .attention import Look, MultiHeadAttention
from .config import LayerConfig
from .errors import require_type
from .feed_forward import FeedForward
from .kernels import Dropout


class Residual(nn.Module):
    """A residual connection adds a sublayer's output to its input, with a norm after or before.

    Post-norm, as in the paper: LayerNorm(x + sublayer(x)). Pre-norm: x + sublayer(LayerNorm(x)).
    """

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, sublayer: Callable[..., Tensor], **options: object) -> Tensor:
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x), **options))
        return self.norm(x + self.dropout(sublayer(x, **options)))


class EncoderLayer(nn.Module):
    """An encoder layer has self-attention and a feed-forward network: [B, S, D] → [B, S, D]."""

    def __init__(self, config: LayerConfig) -> None:
        require_type("config", config, LayerConfig)
        super().__init__()
        width, heads, d_ff = config.d_model, config.n_heads, config.d_ff
        self.config = config
        self.self_attention = MultiHeadAttention(width, heads, **config.attention_options())
        self.feed_forward = FeedForward(width, d_ff, **config.feed_forward_options())
        self.attention_residual = Residual(config)
        self.feed_forward_residual = Residual(config)

    def forward(self, x: Tensor, *, mask: Look | Tensor | None = None) -> Tensor:
        """Applies the layer: [B, S, D] → [B, S, D]. The mask may be a `Look`, which holds one."""
        x = self.attention_residual(x, self.self_attention, look=mask)
        return self.feed_forward_residual(x, self.feed_forward)


class Stack(nn.Module):
    """A stack makes `n_layers` layers of the class `kind`, and a last norm if `final_norm`."""

    kind: type[nn.Module]

    def __init__(self, config: LayerConfig, n_layers: int, final_norm: bool = False) -> None:
        require_type("config", config, LayerConfig)
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(self.kind(config) for _ in range(n_layers))
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_eps) if final_norm else None


class Encoder(Stack):
    """The encoder applies its layers: [B, S, D] → [B, S, D]. The mask may be a `Look`."""

    kind = EncoderLayer

    def forward(
        self, x: Tensor, *, mask: Look | Tensor | None = None, maps: list[Tensor] | None = None
    ) -> Tensor:
        look = mask if isinstance(mask, Look) else Look(mask, maps)
        for layer in self.layers:
            x = layer(x, mask=look)
        return x if self.norm is None else self.norm(x)
