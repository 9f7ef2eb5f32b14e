"""Computes the loss over a large vocabulary without ever holding all its logits.

The logits of 2,000 labels and 8,000 words fill 64 MB, which would travel through memory a dozen
times. Here the loss and the gradients of a few rows are computed while their logits are in cache.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

# Logits at a time: eight megabytes; on a GPU, where calls cost more than memory, 256 megabytes.
PARTS = {"cpu": 1 << 21, "cuda": 1 << 26}


class SummedLoss(torch.autograd.Function):
    """This autograd function sums the label-smoothed cross-entropy of F.linear(hidden, weight)."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
    ) -> Tensor:
        x, w, device = hidden, weight, hidden.device.type
        if torch.is_autocast_enabled(device):  # a custom function has to do this itself
            x, w = (each.to(torch.get_autocast_dtype(device)) for each in (x, w))
        precise = torch.promote_types(x.dtype, torch.float32)
        total = hidden.new_zeros((), dtype=precise)
        to_hidden, to_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        to_bias = None if bias is None else torch.zeros_like(bias)
        rows = max(1, PARTS.get(device, PARTS["cuda"]) // len(weight))
        for begin in range(0, len(x), rows):
            part, wanted = x[begin : begin + rows], labels[begin : begin + rows, None]
            logits = F.linear(part, w, bias).to(precise)
            highest = logits.amax(-1, keepdim=True)
            aim = (1 - smoothing) * logits.gather(-1, wanted) + smoothing * logits.mean(-1, True)
            sums = logits.sub_(highest).exp_().sum(-1, keepdim=True)
            total += (sums.log() + highest - aim).sum()
            # The gradient of the logits is the probabilities less the smoothed labels.
            gradient = logits.div_(sums).sub_(smoothing / len(weight))
            gradient.scatter_add_(-1, wanted, torch.full_like(sums, smoothing - 1))
            if to_bias is not None:
                to_bias += gradient.sum(0)
            gradient = gradient.to(w.dtype)
            to_hidden[begin : begin + rows] = gradient @ w
            to_weight += gradient.T @ part
        ctx.save_for_backward(to_hidden, to_weight, to_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return (*(None if x is None else x * gradient for x in ctx.saved_tensors), None, None)


summed_loss = SummedLoss.apply  # of [N, D] hidden vectors and their labels [N]: a scalar
