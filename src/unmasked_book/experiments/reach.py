"""How much of a first word is left in the last state: the gradient between them, by distance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from unmasked.transformer import Transformer
from unmasked_book.examples import FIRST_LETTER, LETTERS, speller
from unmasked_book.experiments.lstm import Recurrent

MODELS = ("LSTM", "Transformer")


def make(kind: str, seed: int = 0) -> nn.Module:
    """Width 64, with the weights that PyTorch and we draw at the start."""
    if kind == "Transformer":
        return speller(seed=seed, n_layers=2, max_len=2048)
    torch.manual_seed(seed)
    return Recurrent(LETTERS, LETTERS, 128)  # 64 in each direction


def last_state(model: nn.Module, source: Tensor) -> Tensor:
    """What the encoder knows at the last word, of the words before it: [B, 64]."""
    if isinstance(model, Recurrent):  # the direction that began at the first word
        return model.encode(source).states[:, -1, :64]
    state: Tensor = cast(Transformer, model).encode(source)[:, -1]
    return state


def gradients(model: nn.Module, length: int, *, rows: int = 16, seed: int = 0) -> Tensor:
    """The norm of the last state's gradient at each word's embedding, mean over rows: [length]."""
    draws = torch.Generator().manual_seed(seed)
    source = torch.randint(FIRST_LETTER, LETTERS, (rows, length), generator=draws)
    seen: list[Tensor] = []

    def keep(_: nn.Module, __: object, out: Tensor) -> None:
        out.retain_grad()
        seen.append(out)

    hook = cast(nn.Module, model.source_embedding).register_forward_hook(keep)
    state = last_state(model.eval(), source)
    hook.remove()
    direction = torch.randn(state.shape, generator=draws)
    (state * direction).sum().backward()
    norms: Tensor = cast(Tensor, seen[0].grad).norm(dim=-1)
    return norms.mean(0)


def first_over_last(kind: str, lengths: Sequence[int], seed: int = 0) -> list[float]:
    """The first word's gradient as a share of the last one's."""
    model = make(kind, seed)
    found = [gradients(model, n, seed=seed) for n in lengths]
    return [(g[0] / g[-1]).item() for g in found]
