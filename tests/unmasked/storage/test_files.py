"""Weights in a file: all that is needed, nothing twice, and nothing of another model."""

import copy

import pytest
import torch

from helpers import same_tensors, small_model
from unmasked.storage.files import read_tensors, set_tensors, tensors_of, write_tensors


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_every_bit_comes_back(tmp_path, dtype):
    """And stays as it is when the file changes."""
    matrix = torch.randn(3, 4).mul(9).to(dtype)
    number, empty = torch.tensor(3.0).to(dtype), torch.zeros(0, 2).to(dtype)
    kept = {"a": matrix, "turned": matrix.T, "column": matrix[:, 1], "one": number, "no": empty}
    write_tensors(tmp_path / "w", kept)
    read = read_tensors(tmp_path / "w")
    (tmp_path / "w").write_bytes(bytes(4096))
    assert same_tensors(read, kept)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "post"}, "weights: expected a tensor 'decoder.norm.bias', got none"),
        ({"output_bias": True}, "weights: expected nothing that .*, got 'generator.bias'"),
        ({"d_ff": 7}, r"encoder.*: expected shape \[24, 16\], got \[7, 16\]"),
    ],
)
def test_weights_of_another_model_are_refused_and_change_nothing(changes, message):
    model = small_model(norm="pre")
    before = copy.deepcopy(tensors_of(model))
    with pytest.raises(ValueError, match=f"^{message}"):
        set_tensors(model, tensors_of(small_model(**{"norm": "pre", **changes})))
    assert same_tensors(tensors_of(model), before)


def test_a_file_that_is_not_safetensors_is_refused(tmp_path):
    for content in (b"", b"PK\x03\x04 a pickle in a zip", b"\xff" * 99):
        (tmp_path / "w").write_bytes(content)
        with pytest.raises(ValueError, match="/w: expected a safetensors file, got "):
            read_tensors(tmp_path / "w")
    with pytest.raises(ValueError, match="/none: expected a file, got none"):
        read_tensors(tmp_path / "none")
