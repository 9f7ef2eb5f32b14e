"""Shrinks a model's file for the web page: weights as int8, the tokenizer's merges as numbers.

Each row of a matrix is kept as whole numbers from -127 to 127 and one factor for all of them. The
file is a safetensors file, whose header holds configuration, vocabulary and card.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save
from torch import Tensor

from unmasked.errors import invalid
from unmasked.storage.model import FORMAT, read
from unmasked.tokens import SPECIAL_PIECES, Pieces, Subwords

LEVELS = 127


def packed(path: Path, *, exact: bool = False) -> bytes:
    """Returns the bytes of the small file, compressed by gzip: the same for the same model.

    If `exact`, all numbers are in float32, to compare the JavaScript engine with the package.
    """
    kept = read(path, lambda found: found)
    if isinstance(kept.source, Pieces):
        fix = "the page cuts texts by itself"
        raise invalid("model", "one with words or subwords of ours", "OPUS-MT's pieces", fix)
    found = {name: tensor.float() for name, tensor in kept.tensors.items()}
    for name, tensor in kept.tensors.items():
        if tensor.dim() > 1 and not exact:
            found[name], found[f"{name}.scale"] = quantised(tensor)
    tensors = {name: tensor.numpy() for name, tensor in found.items()}
    header: dict[str, Any] = {"format": FORMAT, "model": vars(kept.config), "about": kept.about}
    if isinstance(kept.source, Subwords):
        words, merges = kept.source.words, kept.source.merges
        numbers = {word: number for number, word in enumerate(words)}
        pairs = [(numbers[left], numbers[right]) for left, right in merges]
        first = len(words) - len(merges)
        if words[first:] != [left + right for left, right in merges]:
            raise ValueError("the vocabulary is not in the order in which its tokens were merged")
        header["letters"] = words[len(SPECIAL_PIECES) : first]
        header["cased"] = not kept.source.lowercase
        tensors["merges"] = np.array(pairs, np.uint16 if len(words) < 1 << 16 else np.uint32)
    else:
        header |= {"source": kept.source.words, "target": kept.target.words}
    # One entry: several would stand in another order each time.
    said = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(save(tensors, metadata={"unmasked": said}), mtime=0)


def quantised(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the matrix as int8 numbers, and the factors [rows] that scale its rows back."""
    rows = matrix.float().flatten(1)
    scale = rows.abs().amax(1) / LEVELS
    whole = (rows / scale.clamp(min=1e-30)[:, None]).round()
    return whole.to(torch.int8).view(matrix.shape), scale
