"""Counts what a model costs: operations, bytes, calls to PyTorch, and the bits of its numbers.

An operation is one multiplication or one addition of two numbers; a product and its sum are two.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from unmasked.config import TransformerConfig


def multiply_adds(
    config: TransformerConfig, source: int, target: int, rows: int = 1
) -> dict[str, int]:
    """Returns the multiply-adds of a forward pass over `rows` sentence pairs, by part of the model.

    The encoder reads `source` words a row, the decoder `target`; padding is computed like words.
    """
    d, encoder, decoder = config.d_model, config.n_layers, config.decoder_layers
    read, written = rows * source, rows * target
    across = decoder * (2 * written + 2 * read)  # queries and outputs; keys and values
    pairs = encoder * source**2 + decoder * (target**2 + target * source)
    return {
        "projections": (encoder * 4 * read + decoder * 4 * written + across) * d**2,
        "scores, means": rows * pairs * 2 * d,
        "feed-forward": (encoder * read + decoder * written) * 2 * d * config.d_ff,
        "logits": written * d * config.target_vocab,
    }


def training_operations(config: TransformerConfig, source: int, target: int, rows: int = 1) -> int:
    """Counts multiplications and additions in a training step's matrix products.

    Each product of the forward pass, computed once, has two of its size in the backward pass: one
    for the gradient of either factor.
    """
    return 2 * 3 * sum(multiply_adds(config, source, target, rows).values())


def kept_numbers(
    config: TransformerConfig, source: int, target: int, rows: int = 1
) -> dict[str, int]:
    """Returns how many numbers autograd keeps for the backward pass, by part of the model.

    A masked attention keeps its queries, keys and values, and its result before and after rows that
    see no key are zeroed; a norm its input and, for the next matrix, its output. Not counted are
    dropout's numbers, and the few that norms and softmax keep for each row.
    """
    d, encoder, decoder = config.d_model, config.n_layers, config.decoder_layers
    read, written = rows * source, rows * target
    last = 2 * d if config.has_final_norm else d  # what a stack hands over
    return {
        "encoder": read * (encoder * (9 * d + config.d_ff) + last),
        "decoder": decoder * (written * (14 * d + config.d_ff) + read * 2 * d) + written * last,
        "logits": written * config.target_vocab,
    }


def kept_bytes(run: Callable[[], object], without: Iterable[Tensor] = ()) -> int:
    """Calls `run` and returns the bytes of the tensors that autograd keeps for its backward pass.

    Tensors in `without` do not count: they are there anyway, such as a model's parameters.
    """
    there = {x.untyped_storage().data_ptr() for x in without}
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        kept[storage.data_ptr()] = storage  # held, so that nothing else can get its place
        return x.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        _result = run()  # held as well: its graph keeps what it needs
    return sum(storage.nbytes() for place, storage in kept.items() if place not in there)


class Calls(TorchDispatchMode):
    """Calls counts how often PyTorch dispatches each operation, by name, in a `with` block."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def calls(run: Callable[[], object]) -> Counter[str]:
    """Calls `run` and returns how often PyTorch dispatches each operation, such as addmm."""
    with Calls() as found:
        run()
    return found.count


class Format(NamedTuple):
    """A Format is a floating-point format: a sign, bits of the exponent, bits of the fraction."""

    exponent: int
    fraction: int

    @property
    def step(self) -> float:
        """Returns the distance from 1 to the next larger number of the format."""
        return math.ldexp(1.0, -self.fraction)

    @property
    def largest(self) -> float:
        return (2 - self.step) * math.ldexp(1.0, 2 ** (self.exponent - 1) - 1)

    @property
    def smallest(self) -> float:
        """Returns the smallest normal number above 0; digits of lower numbers are lost."""
        return math.ldexp(1.0, 2 - 2 ** (self.exponent - 1))


FORMATS = {
    "float32": Format(8, 23),
    "TF32": Format(8, 10),  # in the units of a GPU only: in memory it is a float32
    "bfloat16": Format(8, 7),
    "float16": Format(5, 10),
}
