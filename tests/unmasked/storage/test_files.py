"""Weights in a file: all that is needed, nothing twice, and nothing of another model."""

import pytest
import torch
from torch import nn

from helpers import same_bits, same_tensors, small_model
from unmasked.storage.files import read_tensors, set_tensors, tensors_of, write_tensors


@pytest.mark.parametrize("tied", [False, True, "output"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_model_comes_back_from_a_file(tmp_path, tied, positions):
    options = {"tie_embeddings": tied, "positions": positions, "max_len": 9}
    model, other = small_model(**options), small_model(**options)
    kept = tensors_of(model)
    assert sum(x.numel() for x in kept.values()) == model.count_parameters()
    write_tensors(tmp_path / "w", kept)
    set_tensors(other, read_tensors(tmp_path / "w"))
    assert same_tensors(tensors_of(other), kept)
    assert same_tensors(model.state_dict(), other.state_dict())
    assert all(parameter.requires_grad for parameter in other.parameters())
    assert (other.generator.weight is other.target_embedding.tokens.weight) == bool(tied)


def test_buffers_are_kept_unless_they_can_be_made_again():
    module = nn.BatchNorm1d(3)
    module.register_buffer("table", torch.zeros(2), persistent=False)
    names = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}
    assert set(tensors_of(module)) == names
    other = nn.BatchNorm1d(3)
    module(torch.randn(5, 3))
    set_tensors(other, tensors_of(module))
    assert torch.equal(other.running_mean, module.running_mean)
    assert other.num_batches_tracked == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_every_bit_comes_back(tmp_path, dtype):
    kept = {
        "matrix": torch.randn(3, 4).mul(9).to(dtype),
        "turned": torch.randn(3, 4).mul(9).to(dtype).T,
        "column": torch.randn(3, 4).to(dtype)[:, 1],
        "number": torch.tensor(3.0).to(dtype),
        "empty": torch.zeros(0, 2).to(dtype),
    }
    write_tensors(tmp_path / "w", kept)
    assert same_tensors(read_tensors(tmp_path / "w"), kept)


def test_what_was_read_does_not_change_with_the_file(tmp_path):
    write_tensors(tmp_path / "w", {"a": torch.ones(1000)})
    a = read_tensors(tmp_path / "w")["a"]
    (tmp_path / "w").write_bytes(bytes(4096))
    assert a.sum() == 1000


def test_the_same_to_the_last_bit():
    one = torch.tensor([1.0, torch.nan])
    assert same_bits(one, one.clone())
    assert not same_bits(torch.tensor(0.0), torch.tensor(-0.0))
    assert not same_bits(one, one.double())
    assert not same_bits(one, one[None])
    assert not same_bits(one, torch.tensor([1.0 + 2**-23, torch.nan]))
    assert not same_tensors({"a": one}, {"b": one})
    assert not same_tensors({"a": one}, {"a": one + 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda kept: kept.pop("encoder.norm.weight"),
            r"^weights: expected a tensor 'encoder.norm.weight', got none; take this model's own",
        ),
        (
            lambda kept: kept.update(other=torch.zeros(1)),
            "^weights: expected nothing that the model does not have, got 'other'; take this model",
        ),
        (
            lambda kept: kept.update({"generator.weight": torch.zeros(2, 3)}),
            r"^generator.weight: expected shape \[23, 16\], got \[2, 3\]; make the model with the",
        ),
    ],
)
def test_weights_of_another_model_are_refused_and_change_nothing(change, message):
    model = small_model(norm="pre", output_bias=True)
    before = {name: x.clone() for name, x in tensors_of(model).items()}
    others = tensors_of(small_model(norm="pre", output_bias=True))
    change(others)
    with pytest.raises(ValueError, match=message):
        set_tensors(model, others)
    assert same_tensors(tensors_of(model), before)


def test_a_file_that_is_not_safetensors_is_refused(tmp_path):
    for content in (b"", b"PK\x03\x04 a pickle in a zip", b"\xff" * 99):
        (tmp_path / "w").write_bytes(content)
        with pytest.raises(ValueError, match=r"/w: expected a safetensors file, got .*; the file"):
            read_tensors(tmp_path / "w")
    with pytest.raises(ValueError, match=r"/none: expected a file, got none; check the path"):
        read_tensors(tmp_path / "none")
