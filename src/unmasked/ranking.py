"""What beam search ranks: continuations of hypotheses, and those that are finished."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from .special import PADDING


class Finished:
    """The best complete hypotheses of each sentence so far, best first."""

    def __init__(self, n_sentences: int, width: int, limit: int, device: torch.device) -> None:
        self.tokens = torch.full((n_sentences, width, limit), PADDING, device=device)
        self.scores = torch.full((n_sentences, width), -torch.inf, device=device)

    def add(self, rows: Tensor, history: Tensor, scores: Tensor, ends: Tensor) -> None:
        """Lets the candidates that end compete with those that already stand here."""
        if not ends.any():
            return
        scores = torch.cat([self.scores[rows], scores.masked_fill(~ends, -torch.inf)], dim=1)
        room = self.tokens.shape[-1] - history.shape[-1]
        tokens = torch.cat([self.tokens[rows], F.pad(history, (0, room), value=PADDING)], dim=1)
        best, order = scores.topk(self.scores.shape[1])
        self.scores[rows] = best
        self.tokens[rows] = take(tokens, order).masked_fill(best.isneginf()[:, :, None], PADDING)


def extend(totals: Tensor, logits: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """The n best continuations of each sentence's hypotheses: their totals, parents and tokens.

    [B, W], [B, W, V] → three times [B, n].
    """
    logits = logits.float()
    best, tokens = top_k(logits, min(n, logits.shape[-1]))  # [B, W, n]
    scores = totals[:, :, None] + best - logits.logsumexp(-1, keepdim=True)
    totals, chosen = scores.flatten(1).topk(min(n, scores[0].numel()))
    return totals, chosen // best.shape[-1], tokens.flatten(1).gather(1, chosen)


def top_k(x: Tensor, k: int, block: int = 32) -> tuple[Tensor, Tensor]:
    """x.topk(k) over a long last dimension: the k best are in the k blocks with the best maxima."""
    if x.shape[-1] < 4 * k * block:
        return x.topk(k)
    room = -x.shape[-1] % block
    blocks = F.pad(x, (0, room), value=-torch.inf).view(*x.shape[:-1], -1, block)
    chosen = blocks.amax(-1).topk(k).indices  # [..., k]
    inside = blocks.gather(-2, chosen[..., None].expand(*chosen.shape, block))
    values, at = inside.flatten(-2).topk(k)
    return values, chosen.gather(-1, at // block) * block + at % block


def take(x: Tensor, index: Tensor) -> Tensor:
    """Rows of each sentence: [B, N, T], [B, M] → [B, M, T]."""
    return x.gather(1, index[:, :, None].expand(-1, -1, x.shape[-1]))


def penalty(length: int, alpha: float) -> float:
    return float(((5 + length) / 6) ** alpha)
