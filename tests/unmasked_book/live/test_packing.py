"""A model packed for the page: small, the same bytes each time, and nearly the same numbers."""

import json
import zlib
from typing import Any

import pytest
import torch
from safetensors import numpy as safetensors_numpy
from torch import Tensor

from unmasked.storage.model import CONFIG
from unmasked.translator import folder_of, load, shipped_models
from unmasked_book.live.packing import packed, quantised


def opened(data: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    raw = zlib.decompress(data, wbits=16 + zlib.MAX_WBITS)
    size = int.from_bytes(raw[:8], "little")
    tensors = {name: torch.from_numpy(array) for name, array in safetensors_numpy.load(raw).items()}
    return tensors, json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["unmasked"])


@pytest.mark.parametrize("name", shipped_models())
def test_a_shipped_model_is_small_and_holds_its_weights_and_words(name: str):
    data = packed(folder_of(name))
    assert data == packed(folder_of(name))
    assert len(data) < 2.79e6
    tensors, header = opened(data)
    translator = load(name)
    config = (folder_of(name) / CONFIG).read_text(encoding="utf-8")
    assert header["config"] == json.loads(config)
    table = tensors["source_embedding.tokens.weight"]
    assert table.dtype == torch.int8
    wide = table.float() * tensors["source_embedding.tokens.weight.scale"][:, None]
    original = translator.model.source_embedding.tokens.weight.detach()
    steps = original.abs().amax(1, keepdim=True) / 127
    assert ((wide - original).abs() <= steps / 2 + 1e-6).all()
    pieces = ["<pad>", "<bos>", "<eos>", "<unk>", *header["letters"]]
    for left, right in tensors["merges"].tolist():
        pieces.append(pieces[left] + pieces[right])
    assert pieces == translator.source.words


def test_a_row_of_zeros_stays_zero():
    whole, scale = quantised(torch.tensor([[0.0, 0.0], [1.0, -0.5]]))
    assert whole.tolist() == [[0, 0], [127, -64]]
    assert scale.tolist() == pytest.approx([0.0, 1 / 127])
