"""Tests what a translator's file gives back, what is not saved, and which files are refused."""

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from helpers import put, same_tensors, small_config
from helpers.crashes import held, listed, made
from unmasked import Transformer, load
from unmasked.config import POSITIONS
from unmasked.layers import Linear
from unmasked.storage import files
from unmasked.storage.model import CONFIG, FOLDER, MODEL
from unmasked.storage.weights import tensors_of
from unmasked.tokens import Words
from unmasked.translator import Translator

SMALL, LARGE = Words.of(["a b c d e größer"]), Words.of(["A B C D E F"])
SIZES = {"source_vocab": np.int64(len(SMALL)), "target_vocab": len(LARGE)}


def untrained(**changes):
    return Translator(Transformer(small_config(**SIZES, **changes)).eval(), SMALL, LARGE)


def batch(translator):
    return translator.corpus([("a b c", "A B"), ("d", "D E F"), ("e", "F")]).batch()


@pytest.mark.parametrize(
    ("dtype", "changes"),
    [
        *((torch.float32, {"positions": kind, "max_len": 60}) for kind in POSITIONS),
        (torch.float64, {"norm": "pre", "tie_embeddings": "output"}),
        (torch.float32, {"tie_embeddings": True, "n_decoder_layers": 1, "output_bias": True}),
    ],
)
def test_what_is_saved_is_loaded_to_the_last_bit(tmp_path, dtype, changes):
    translator, path = untrained(**changes), tmp_path / "new" / MODEL
    translator.model.to(dtype)
    translator.about["recipe"] = {"loss": np.float32(0.5), "name": "Zoë", "where": Path("x")}
    translator.save(path)
    for again in (load(str(path)), load(path.parent)):
        assert torch.equal(translator.model(*batch(translator)), again.model(*batch(again)))
        assert same_tensors(tensors_of(translator.model), tensors_of(again.model))
        assert again.model.config == translator.model.config
        assert (again.source.words, again.target.words) == (SMALL.words, LARGE.words)
        assert again.about["recipe"] == {"loss": 0.5, "name": "Zoë", "where": "x"}
        assert not again.model.training
        assert all(parameter.requires_grad for parameter in again.model.parameters())
    kept, _ = files.read(path)
    assert sum(x.numel() for x in kept.values()) == translator.model.count_parameters()  # once
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode  # readable by the same users


def share(model):
    model.decoder.layers[1].cross_attention = model.decoder.layers[0].cross_attention
    model.encoder.layers[0].self_attention.key = model.encoder.layers[0].self_attention.query


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (put("", note="x"), None),
        (lambda m: m.encoder.layers[1].register_forward_hook(lambda *_: None), "encoder.layers.1$"),
        (lambda m: m.encoder.requires_grad_(False), None),
        (share, None),
        (lambda m: put("generator", forward=m.generator.forward)(m), "generator$"),
    ],
)
def test_other_changes_are_saved_too_and_hooks_are_named(tmp_path, change, where):
    translator = untrained()
    change(translator.model)
    with pytest.warns(UserWarning, match=f"hooks .* in {where}") if where else nullcontext():
        translator.save(tmp_path / MODEL)
    again = load(tmp_path)
    assert torch.equal(translator.model(*batch(again)), again.model(*batch(again)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("decoder.layers.1", feed_forward=nn.Identity()), r"1.feed_forward \(Identity\)"),
        (put("generator", __class__=type("Own", (Linear,), {})), "another generator \\(Own\\)"),
        (put("decoder.layers.0.self_attention", n_heads=1), "another decoder.layers.0.self_att"),
        (put("encoder.layers.0.feed_forward_residual", pre=False), "another encoder.layers.0.feed"),
        (lambda m: m.decoder.layers.pop(-1), "what its configuration makes"),
        (put("", config=small_config(**SIZES, n_layers=3)), "what its configuration makes"),
        (lambda m: m.encoder.norm.weight.data.fill_(1e30), "an infinite one in enc.* bfloat16"),
        (put("generator", weight=nn.Parameter(torch.ones(9, 16))), "is tied as configured"),
    ],
)
def test_what_load_could_not_restore_is_not_saved_over_what_is_there(tmp_path, change, message):
    made("old").save(tmp_path / MODEL)
    changed = untrained(tie_embeddings="output", norm="pre")
    change(changed.model)
    with pytest.raises(ValueError, match=message):
        changed.save(tmp_path / MODEL, dtype=torch.float16)
    assert listed(tmp_path) == [MODEL]
    assert held(tmp_path) == "old"


@pytest.mark.parametrize("name", ["mine", "runs", "mine.pt"])
def test_a_file_has_a_name_that_says_what_it_is(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    call = {"runs": "runs/model.safetensors"}.get(name, f"{name}.safetensors")
    with pytest.raises(ValueError, match=rf"^path: expected .*, got '{name}'; call it {call}$"):
        made("old").save(name)


def test_what_is_here_goes_before_what_is_shipped_and_is_missing_before_any_network(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_: pytest.fail("asked"))
    assert load("de-en").model.count_parameters() > 1e6
    made("old").save("de-en/model.safetensors")
    assert load("de-en").about == {"name": "old"}
    assert "de-en: the one in" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"got 'de-en/other'; check the path$"):
        load("de-en/other")


# --- Folders of version 0.3 -------------------------------------------------------------------


def folder_of(translator, path):
    """Saves a translator as version 0.3 did."""
    weights = path / f"model-{'0' * 32}.safetensors"
    translator.save(weights)
    said, names = files.read(weights)[1], {weights.name: ""}
    if "subwords" in said:
        names["tokenizer.json"] = ""
        (path / "tokenizer.json").write_text(said.pop("subwords"))
    (path / CONFIG).write_text(json.dumps({**said, "format": FOLDER, "sums": names}))


def test_a_folder_of_before_is_read_and_a_training_does_not_write_into_it(tmp_path):
    folder_of(made("old"), tmp_path)
    assert held(tmp_path) == "old"
    translator, words = untrained(), tmp_path / "words"
    words.mkdir()
    folder_of(translator, words)
    again = load(words)
    assert torch.equal(translator.model(*batch(again)), again.model(*batch(again)))


# --- Read with distrust -----------------------------------------------------------------------


def saying(folder=False, weights=lambda x: x, **values):
    """Changes the weights, or what the head of a file or a folder's configuration says."""

    def damage(path):
        tensors, said = files.read(path / MODEL)
        said |= {**values, "model": said["model"] | values.get("model", {})}
        if folder:
            (path / CONFIG).write_text(json.dumps({**said, "format": FOLDER, **values}))
        else:
            files.write(path / MODEL, {name: weights(x) for name, x in tensors.items()}, said)

    return damage


def instead(put, name=MODEL):
    """Removes the model, and puts another content, or whatever `put` makes, in its place."""

    def damage(path):
        (path / MODEL).unlink()
        put(path / name) if callable(put) else (path / name).write_bytes(put)

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (instead(lambda path: None), "folder that `unmasked train` wrote, got No such file"),
        (instead(lambda path: path.symlink_to("/dev/zero")), "a model.safetensors that is no fi"),
        (instead(lambda path: path.symlink_to("/proc/self/pagemap")), "got No such device"),
        (instead(b"\xff" * 99), "a model.safetensors that is no sa"),
        (instead(lambda path: files.write(path, {"a": torch.ones(1)}, {})), "got the format None"),
        (saying(format="x 2"), "got the format 'x 2' instead of "),
        (saying(about=[]), "about: expected a dict, got list"),
        (saying(subwords="{}"), "tokenizer: expected"),
        (saying(model={"size": 3}), "unexpected keyword argument 'size'"),
        (saying(model={"n_layers": 10**4}), "got 20,000 layers and weights of "),
        (saying(model={"d_ff": 10**30}), "got sizes that no memory has room for"),
        (saying(weights=lambda x: x * torch.nan), "weights: expected finite numbers, got NaN in"),
        (saying(weights=lambda x: x.to(torch.int64)), "got weights of the type torch.int64"),
        (instead(b"[" * 100_000, CONFIG), "got maximum recursion"),
        (instead(b'"\x1b[2J' + b"a" * 9999, CONFIG), "Invalid control"),
        (instead(b"{" + b" " * 10**8, CONFIG), "a config.json of 100,000,001"),
        (saying(folder=True, sums={"../out.safetensors": ""}), "which is none of a model's"),
        (saying(folder=True, sums={MODEL: "", "tokenizer.json": ""}), "expected a model's file"),
    ],
)
def test_damage_is_named_with_its_place_in_one_sentence(tmp_path, damage, message):
    made("old").save(tmp_path / "model" / MODEL)
    damage(tmp_path / "model")
    with pytest.raises(ValueError, match=r"; \w") as error:
        load(tmp_path / "model")
    said = str(error.value)
    assert said.startswith(f"{tmp_path}/model: expected a")
    assert message in said
    assert said.isprintable()
    assert len(said) < 900
