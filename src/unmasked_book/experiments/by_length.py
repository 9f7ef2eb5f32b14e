"""All words at once or one after the other: the time of a training step, by length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from unmasked.config import TransformerConfig
from unmasked.transformer import Transformer
from unmasked_book.experiments.learning import label_cross_entropy
from unmasked_book.experiments.lstm import (
    Recurrent,
    count_multiplied,
    count_parameters,
    recurrent_of_size,
)
from unmasked_book.machines import seconds

WORDS = 1000
LSTMS: dict[str, Callable[[nn.Module], int]] = {
    "LSTM, as many parameters": count_parameters,
    "LSTM, as many multiplications": count_multiplied,
}
MODELS = (*LSTMS, "Transformer")


def make(kind: str, longest: int) -> nn.Module:
    """Two layers of width 128, or an LSTM with attention that is as large in one sense."""
    torch.manual_seed(0)
    transformer = Transformer(TransformerConfig(
        source_vocab=WORDS, target_vocab=WORDS, d_model=128, n_heads=4, n_layers=2, d_ff=512,
        dropout=0.0, norm="pre", max_len=longest))  # fmt: skip
    if kind == "Transformer":
        return transformer
    count = LSTMS[kind]
    return Recurrent(WORDS, WORDS, recurrent_of_size(count(transformer), WORDS, WORDS, count=count))


def step(model: nn.Module, rows: int, length: int, device: torch.device) -> Callable[[], None]:
    """One update on random sentences, all of one length."""
    draws = torch.Generator().manual_seed(0)
    source, target = torch.randint(3, WORDS, (2, rows, length), generator=draws).to(device)
    start = torch.ones(rows, 1, dtype=torch.long, device=device)
    target = torch.cat([start, target], dim=1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, fused=True)

    def run() -> None:
        optimizer.zero_grad()
        label_cross_entropy(model, source, target).mean().backward()
        optimizer.step()

    return run


def measure(
    lengths: Sequence[int] = (16, 32, 64, 128, 256, 512, 1024, 2048),
    tokens: int = 4096,
    *,
    device: torch.device | str = "cpu",
    threads: Sequence[int] = (1, 2),
    rounds: int = 7,
) -> Iterator[dict[str, Any]]:
    """A row for each number of threads, length and model.

    Each step has as many words, in fewer, longer rows.
    """
    chosen, before = torch.device(device), torch.get_num_threads()
    try:
        for workers, length, kind in product(threads, lengths, MODELS):
            torch.set_num_threads(workers)
            model = make(kind, max(lengths)).to(chosen)
            rows = max(1, tokens // length)
            took = seconds(step(model, rows, length, chosen), chosen, rounds)
            yield {"threads": workers, "length": length, "rows": rows, "model": kind,
                   "parameters": count_parameters(model), "multiplied": count_multiplied(model),
                   "seconds": took}  # fmt: skip
    finally:
        torch.set_num_threads(before)


def longest_chain(result: Tensor) -> int:
    """How many operations have to wait for each other, from the weights to this result."""
    found: dict[Any, int] = {}
    waiting: list[Any] = [result.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [each for each, _ in node.next_functions if each is not None]
        if missing := [each for each in before if each not in found]:
            waiting += missing
        else:
            found[node] = 1 + max((found[each] for each in before), default=0)
            waiting.pop()
    return found[result.grad_fn]
