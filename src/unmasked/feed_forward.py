"""The position-wise feed-forward network (section 3.3): the same two layers at every position."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from .dropout import Dropout
from .validation import check_at_least, check_choice, check_vectors

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
KINDS = ("linear", "conv")


class FeedForward(nn.Module):
    """max(0, x W₁ + b₁) W₂ + b₂: [B, S, D] → [B, S, D].

    `kind="conv"` writes the two layers as convolutions of width 1: the same sums, other code.
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
        super().__init__()
        check_at_least("d_model", d_model, 1)
        check_at_least("d_ff", d_ff, 1)
        check_choice("feed_forward", kind, KINDS)
        check_choice("activation", activation, tuple(ACTIVATIONS))
        self.d_model, self.kind, self.activation = d_model, kind, ACTIVATIONS[activation]
        self.expand: nn.Linear | nn.Conv1d
        self.contract: nn.Linear | nn.Conv1d
        if kind == "linear":
            self.expand = nn.Linear(d_model, d_ff, bias=bias)
            self.contract = nn.Linear(d_ff, d_model, bias=bias)
        else:
            self.expand = nn.Conv1d(d_model, d_ff, kernel_size=1, bias=bias)
            self.contract = nn.Conv1d(d_ff, d_model, kernel_size=1, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        check_vectors("x", x, self.d_model)
        if self.kind == "conv":
            x = x.transpose(1, 2)  # convolutions want the channels before the positions
        x = self.dropout(self.activation(self.expand(x)))
        x = self.contract(x)
        return x.transpose(1, 2) if self.kind == "conv" else x
