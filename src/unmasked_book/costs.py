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
    """Counts products, each with its sum, of a forward pass over so many rows, part by part.

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
    """Counts the operations of a training step's matrix products, none of them recomputed.

    Each product of the forward pass has two of its size in the backward pass: one for the gradient
    of either factor.
    """
    return 2 * 3 * sum(multiply_adds(config, source, target, rows).values())


def kept_numbers(
    config: TransformerConfig, source: int, target: int, rows: int = 1
) -> dict[str, int]:
    """Counts the numbers that a step keeps for its backward pass, by part, without dropout's.

    A masked attention keeps its queries, keys and values, and its result before and after rows
    without a key are emptied; a norm its input and, for the next matrix, its output. The few
    numbers that norms and softmax keep for each row are left out.
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
    """Measures the bytes of the tensors that autograd keeps of a run for its backward pass.

    `without` are tensors that are there anyway, such as a model's parameters.
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
    """Counts the operations that PyTorch dispatches, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def calls(run: Callable[[], object]) -> Counter[str]:
    """Returns the operations of a run, and how often each is called."""
    with Calls() as found:
        run()
    return found.count


class Format(NamedTuple):
    """A Format has a sign, bits for the power of two, and bits for the digits that follow "1."."""

    exponent: int
    fraction: int

    @property
    def step(self) -> float:
        """Returns the distance from 1 to the next larger number."""
        return math.ldexp(1.0, -self.fraction)

    @property
    def largest(self) -> float:
        return (2 - self.step) * math.ldexp(1.0, 2 ** (self.exponent - 1) - 1)

    @property
    def smallest(self) -> float:
        """Returns the lowest number above 0 with a leading 1; below it, digits are lost."""
        return math.ldexp(1.0, 2 - 2 ** (self.exponent - 1))


FORMATS = {
    "float32": Format(8, 23),
    "TF32": Format(8, 10),  # in the units of a GPU only: in memory it is a float32
    "bfloat16": Format(8, 7),
    "float16": Format(5, 10),
}
