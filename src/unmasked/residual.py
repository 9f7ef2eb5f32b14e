"""The residual connection around a sublayer, with its norm: after the sum, or before all."""

from __future__ import annotations

from torch import Tensor, nn

from .config import LayerConfig
from .dropout import Dropout


class Residual(nn.Module):
    """Wraps a sublayer: `x = residual.leave(x, sublayer(residual.enter(x)))`.

    Post-norm, as in the paper: LayerNorm(x + sublayer(x)). Pre-norm: x + sublayer(LayerNorm(x)).
    """

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = nn.LayerNorm(config.d_model, **config.norm_options())
        self.dropout = Dropout(config.dropout)

    def enter(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(x) if self.pre else x
        return normed

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        total: Tensor = x + self.dropout(y)
        return total if self.pre else self.norm(total)
