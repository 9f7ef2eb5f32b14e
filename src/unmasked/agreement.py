"""R-Drop (Liang et al. 2021): what dropout changes should not change what the model says.

Every sentence goes through the model twice, with other dropout. Beside the mean of both losses,
the two predictions p and q of each word are held against each other:

    ½ (loss of p + loss of q) + ½ · strength · ½ (KL(p, q) + KL(q, p))

which is half of the paper's loss, so that it compares with a loss that goes through once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from .large_vocabulary import PART, autocast_to


class SummedAgreement(torch.autograd.Function):
    """The sum over [2N, D] hidden vectors, the second pass below the first, and N labels.

    A part of the rows at a time, as in `large_vocabulary`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        strength: float,
    ) -> Tensor:
        x, w = autocast_to(hidden, weight)
        precise = torch.promote_types(x.dtype, torch.float32)
        total = hidden.new_zeros((), dtype=precise)
        to_hidden, to_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        to_bias = None if bias is None else torch.zeros_like(bias)
        passes = x.chunk(2), to_hidden.chunk(2)
        rows = max(1, PART // len(weight) // 2)
        for begin in range(0, len(labels), rows):
            here = slice(begin, begin + rows)
            parts = [each[here] for each in passes[0]]
            logs = [F.linear(part, w, bias).log_softmax(-1, dtype=precise) for part in parts]
            wanted = labels[here, None]
            for log in logs:
                surprise = (1 - smoothing) * log.gather(-1, wanted).sum()
                total -= (surprise + smoothing * log.mean(-1).sum()) / 2
            apart = logs[0] - logs[1]
            p, q = (log.exp_() for log in logs)
            far, back = ((each * apart).sum(-1, keepdim=True) for each in (p, q))
            total += strength / 4 * (far - back).sum()
            away = p - q
            for part, out, own, turned, divergence, sign in (
                (parts[0], passes[1][0], p, apart, far, 1),
                (parts[1], passes[1][1], q, -apart, -back, -1),
            ):
                gradient = own * (turned - divergence)  # of KL(own, other) …
                gradient += sign * away  # … and of KL(other, own)
                gradient *= strength / 2
                gradient += own
                gradient -= smoothing / len(weight)
                gradient.scatter_add_(-1, wanted, torch.full_like(divergence, smoothing - 1))
                gradient = (gradient / 2).to(w.dtype)
                if to_bias is not None:
                    to_bias += gradient.sum(0)
                out[here] = gradient @ w
                to_weight += gradient.T @ part
        ctx.save_for_backward(to_hidden, to_weight, to_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return (*(None if x is None else x * gradient for x in ctx.saved_tensors), *[None] * 3)


def summed_agreement(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    smoothing: float,
    strength: float,
) -> Tensor:
    """The sum over both passes, [2N, D], and their labels [N]: a scalar."""
    given = (hidden, weight, bias, labels, smoothing, strength)
    total: Tensor = SummedAgreement.apply(*given)  # type: ignore[no-untyped-call]
    return total
