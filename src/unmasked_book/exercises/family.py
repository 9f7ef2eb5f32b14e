"""Judges answers to the exercises of chapter 14."""

import inspect
import math
import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unmasked.plain import causal_mask
from unmasked_book.exercises.compare import NoAnswerError, function, number, same_tensor
from unmasked_book.family import GPT
from unmasked_book.workshop.judging import unwritten
from unmasked_book.workshop.mistakes import known

TOKENS = torch.tensor([[1, 5, 4, 8, 2], [1, 7, 2, 0, 0], [0, 0, 1, 7, 3]])  # padding on either side


@torch.no_grad()
def matched(
    ours: Any, answer: Any, *given: Any, case: str = "the output", sizes: Any = (), real: Any = None
) -> str | None:
    """Returns how an answer's output differs from that of `ours` with the same weights, or None."""
    if isinstance(answer, type) and unwritten(answer):
        raise NoAnswerError
    parameters = ours(*sizes).state_dict() if sizes else {}
    weights = {key: 0.5 * torch.randn_like(x) for key, x in parameters.items()}

    def output(made: Any) -> Any:
        if sizes:
            made = made(*sizes).eval()
            made.load_state_dict(weights)
        return made(*given)

    got, expected = output(answer), output(ours)
    wrong = same_tensor(got, expected, case, 1e-4, real)
    for mistake in known(ours.__name__) if wrong else ():
        other = output(edited(ours, *mistake.changes[0]))
        if not same_tensor(got, other, "", 1e-4, real):
            return f"not yet: ours gives your numbers with one mistake: {mistake.words}."
    return wrong


def edited(right: Any, old: str, new: str) -> Any:
    """Returns a function or class made from the source of `right`, with one text replaced."""
    names = dict(vars(sys.modules[right.__module__]))
    exec(inspect.getsource(right).replace(old, new), names)
    return names[right.__name__]


def bucket(distance: int, rows: int = 32) -> int:
    """Returns the row of T5's bias table for a distance: its own if short, else logarithmic."""
    own = rows // 2
    far = own + int(own * math.log(max(distance, own) / own) / math.log(128 / own))
    return min(distance, far, rows - 1)


def t5_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, table: Tensor, both_ways: bool
) -> Tensor:
    """Computes T5's attention: unscaled scores, plus a bias by distance from a table [32, H]."""

    def row(back: int) -> int:  # `back` positions from the key on to the query
        return bucket(abs(back), 16) + 16 * (back < 0) if both_ways else bucket(max(back, 0))

    places = range(q.shape[2])
    rows = torch.tensor([[row(query - key) for key in places] for query in places])
    scores = q @ k.mT + table[rows].permute(2, 0, 1)
    return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v


def distances(answer: Any) -> str | None:
    """Judges T5's attention over 150 positions, in an encoder with padding and in a decoder."""
    q, k, v = torch.randn(3, 2, 3, 150, 4)
    table, real = torch.randn(32, 3), torch.arange(150) < torch.tensor([150, 140])[:, None]
    for case, mask in (("encoder", real[:, None, None]), ("decoder", causal_mask(150))):
        given = (q, k, v, mask, table, case == "encoder")
        if wrong := matched(t5_attention, answer, *given, case=f"the {case}'s output"):
            return wrong
    return None


class Ear(nn.Module):
    """An ear turns sound into vectors for Whisper's encoder: two convolutions, then positions."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, d_model, 3, padding=1)
        self.second = nn.Conv1d(d_model, d_model, 3, stride=2, padding=1)

    def forward(self, sound: Tensor) -> Tensor:  # [B, 80, frames] → [B, frames / 2, D]
        x = F.gelu(self.second(F.gelu(self.first(sound)))).mT
        half = x.shape[2] // 2
        rates = 10000.0 ** (-torch.arange(half) / (half - 1))
        angles = torch.arange(x.shape[1])[:, None] * rates
        return x + torch.cat([angles.sin(), angles.cos()], dim=1)


CHECKS = {
    "1": number(2 * 4096 * 4096 + 2 * 4096 * 8 * 128),  # Mistral 7B: 32 heads of 128, in 8 groups
    "2": function("bucket", bucket, *((distance,) for distance in range(300))),
    "+": lambda answer: matched(GPT, answer, TOKENS, sizes=(9, 12, 3, 2, 20), real=TOKENS != 0),
    "+ T5": distances,
    "+ Whisper": lambda answer: matched(Ear, answer, torch.randn(2, 80, 40) / 10, sizes=(12,)),
}
