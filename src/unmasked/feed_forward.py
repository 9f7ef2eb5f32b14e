"""Defines the feed-forward network (section 3.3), which treats all positions alike."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from .config import ACTIVATIONS, FEED_FORWARDS
from .errors import require_choice, require_wholes
from .kernels import Dropout
from .layers import Linear

ACTIVATION: dict[str, Any] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}


class FeedForward(nn.Module):
    """The network computes max(0, x W₁ + b₁) W₂ + b₂: [B, S, D] → [B, S, D].

    `kind="conv"` computes the same sums by two convolutions of width 1.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        dropout: float = 0.0,
        kind: str = "linear",
        activation: str = "relu",
        bias: bool = True,
    ) -> None:
        require_wholes(d_model=(d_model, 1), d_ff=(d_ff, 1))
        require_choice("kind", kind, FEED_FORWARDS)
        require_choice("activation", activation, ACTIVATIONS)
        super().__init__()
        layer = Convolution if kind == "conv" else Linear
        self.d_model, self.activation = d_model, ACTIVATION[activation]
        self.expand = layer(d_model, d_ff, bias=bias)
        self.contract = layer(d_ff, d_model, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.dropout(self.activation(self.expand(x))))


class Convolution(nn.Conv1d):
    """This convolution of width 1 takes and returns what nn.Linear does: [..., D] → [..., E]."""

    def __init__(self, d_in: int, d_out: int, *, bias: bool = True) -> None:
        super().__init__(d_in, d_out, kernel_size=1, bias=bias)

    def forward(self, x: Tensor) -> Tensor:  # nn.Conv1d wants the width before the positions
        rows = x.reshape(-1, x.shape[-1])
        return super().forward(rows.t()).t().reshape(*x.shape[:-1], -1)
