"""A model's folder → one small file for the page: int8 rows, and the tokenizer as pairs of numbers.

Each row of a matrix is kept as whole numbers from -127 to 127 and what they have to be multiplied
with. The file is a safetensors file; its header holds `config.json`.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save
from torch import Tensor

from unmasked.errors import invalid
from unmasked.storage.files import read_tensors
from unmasked.storage.model import CONFIG, weights_file
from unmasked.tokens import SPECIAL_PIECES, Pieces, Subwords
from unmasked.translator import Translator

LEVELS = 127


def packed(folder: Path, *, exact: bool = False) -> bytes:
    """The file, compressed by gzip: the same bytes for the same model.

    If `exact`, with its numbers as they are, to compare the engine with the package.
    """
    translator = Translator.load(folder)  # it must be whole
    if isinstance(translator.source, Pieces):
        fix = "the page cuts texts by itself"
        raise invalid("model", "one with words or subwords of ours", "OPUS-MT's pieces", fix)
    found: dict[str, Tensor] = {}
    for name, tensor in read_tensors(weights_file(folder)).items():
        if tensor.dim() > 1 and not exact:
            found[name], found[f"{name}.scale"] = quantised(tensor)
        else:
            found[name] = tensor
    tensors = {name: tensor.numpy() for name, tensor in found.items()}
    header: dict[str, Any] = {"config": json.loads((folder / CONFIG).read_text(encoding="utf-8"))}
    if isinstance(translator.source, Subwords):
        letters, pairs = as_pairs(translator.source)
        header["letters"] = letters
        if not translator.source.lowercase:
            header["cased"] = True
        tensors["merges"] = np.array(pairs, dtype=np.uint16)
    # One entry: several would stand in another order each time.
    kept = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    return compressed(save(tensors, metadata={"unmasked": kept}))


def compressed(data: bytes) -> bytes:
    """As gzip, with all the memory that it can use."""
    gzip = zlib.compressobj(9, zlib.DEFLATED, wbits=16 + zlib.MAX_WBITS, memLevel=9)
    return gzip.compress(data) + gzip.flush()


def quantised(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers of the same shape, and what each row has to be multiplied with: [rows]."""
    rows = matrix.float().flatten(1)
    scale = rows.abs().amax(1) / LEVELS
    whole = (rows / scale.clamp(min=1e-30)[:, None]).round().clamp(-LEVELS, LEVELS)
    return whole.to(torch.int8).view(matrix.shape), scale


def as_pairs(subwords: Subwords) -> tuple[list[str], list[tuple[int, int]]]:
    """The letters, and for each later token the two that it was merged from."""
    words = subwords.words
    numbers = {word: number for number, word in enumerate(words)}
    merges = [(numbers[left], numbers[right]) for left, right in subwords.merges]
    first = len(words) - len(merges)
    made = [words[left] + words[right] for left, right in merges]
    if made != words[first:]:
        raise ValueError("the vocabulary is not in the order in which its tokens were merged")
    return words[len(SPECIAL_PIECES) : first], merges
