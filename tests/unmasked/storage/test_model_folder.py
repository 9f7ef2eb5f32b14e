"""A model's folder: whole whatever happens, and read with distrust."""

import copy
import json
import os
import pickle
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from helpers import crashes, put, same_tensors, small_config
from helpers.crashes import held, listed
from helpers.side_by_side import save_in_turn, together
from unmasked import Transformer
from unmasked.config import POSITIONS
from unmasked.layers import Linear
from unmasked.storage.files import digest, read_tensors, tensors_of, write_tensors
from unmasked.storage.model import CONFIG, weights_file
from unmasked.tokens import Words
from unmasked.translator import Translator

SMALL, LARGE = Words.of(["a b c d e größer"]), Words.of(["A B C D E F"])
SIZES = {"source_vocab": np.int64(len(SMALL)), "target_vocab": len(LARGE)}


def untrained(**changes):
    return Translator(Transformer(small_config(**SIZES, **changes)).eval(), SMALL, LARGE)


def holds(folder, made):
    return same_tensors(*(tensors_of(m.model) for m in (Translator.load(folder), made)))


@pytest.mark.parametrize(
    "changes",
    [
        *({"positions": kind, "max_len": 60} for kind in POSITIONS),
        {"norm": "pre", "tie_embeddings": "output"},
        {"tie_embeddings": True, "n_decoder_layers": 1, "output_bias": True},
    ],
)
def test_what_is_saved_is_loaded_to_the_last_bit(tmp_path, changes):
    made, path = untrained(**changes), tmp_path / "new" / "folder"
    made.about["recipe"] = {"loss": np.float32(0.5), "name": "Zoë", "where": Path("x")}
    made.save(path)
    again = Translator.load(str(path))
    source, target = made.corpus([("a b c", "A B"), ("d", "D E F"), ("e", "F")]).batch()
    assert torch.equal(made.model(source, target), again.model(source, target))
    assert holds(path, made)
    assert again.model.config == made.model.config
    assert (again.source.words, again.target.words) == (SMALL.words, LARGE.words)
    assert again.about["recipe"] == {"loss": 0.5, "name": "Zoë", "where": "x"}
    assert not again.model.training
    assert all(parameter.requires_grad for parameter in again.model.parameters())
    kept = read_tensors(weights_file(path))
    assert sum(x.numel() for x in kept.values()) == made.model.count_parameters()  # nothing twice
    config, weights = sorted(path.iterdir())
    assert config.stat().st_mode == weights.stat().st_mode  # whoever reads one may read the other


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_is_saved_as_what_it_is_a_copy_of(again, tmp_path):
    made, texts = crashes.made("old"), ["der <eos> hund", "<pad> the <bos> dog"]
    again(made).save(tmp_path)
    assert Translator.load(tmp_path).tokens(texts).tolist() == made.tokens(texts).tolist()
    assert holds(tmp_path, made)


def share(model):
    model.decoder.layers[1].cross_attention = model.decoder.layers[0].cross_attention
    model.encoder.layers[0].self_attention.key = model.encoder.layers[0].self_attention.query


CHANGED = {
    "a note": put("", note="x"),
    "a hook": lambda model: model.encoder.layers[1].register_forward_hook(lambda *_: None),
    "frozen": lambda model: model.encoder.requires_grad_(False),
    "shared parts": share,
    "a forward of its own": lambda model: put("generator", forward=model.generator.forward)(model),
}


@pytest.mark.parametrize("change", CHANGED)
def test_what_changes_no_number_that_is_kept_is_saved_too_and_hooks_are_named(tmp_path, change):
    made = untrained()
    CHANGED[change](made.model)
    where = {"a hook": "encoder.layers.1$", "a forward of its own": "generator$"}.get(change)
    with pytest.warns(UserWarning, match=f"hooks .* in {where}") if where else nullcontext():
        made.save(tmp_path)
    source, target = made.corpus([("a b c", "A B"), ("d", "D E F"), ("e", "F")]).batch()
    assert torch.equal(made.model(source, target), Translator.load(tmp_path).model(source, target))


# --- Written whole, or not at all -------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "error", "said"),
    [
        ("unmasked.storage.model.write_tensors", SafetensorError("full"), r"written \(.*full"),
        ("os.fsync", OSError("full"), r"could not be written \(.*full"),
        ("pathlib.Path.replace", KeyboardInterrupt("stop"), "stop"),
    ],
)
def test_a_save_that_fails_leaves_the_folder_as_it_was(tmp_path, where, error, said):
    made = untrained()
    made.save(tmp_path)
    before = listed(tmp_path)
    with patch(where, side_effect=error), pytest.raises((OSError, KeyboardInterrupt), match=said):
        untrained().save(tmp_path)
    assert listed(tmp_path) == before
    assert holds(tmp_path, made)


def test_a_process_killed_before_any_operation_of_a_save_leaves_the_old_model_or_the_new(tmp_path):
    """The new one from the moment at which config.json has its name."""
    crashes.made("old").save(tmp_path / "old")
    (tmp_path / "nothing").mkdir()
    for at_first in ("old", "nothing"):
        folder = tmp_path / at_first
        save = partial(crashes.made("new").save, folder)
        deaths = crashes.killed(folder, save, tmp_path / f"over {at_first}")
        events, copies = zip(*deaths, strict=True)
        found = [held(copy) for copy in copies]
        renames = [number for number, event in enumerate(events) if event.startswith("os.rename")]
        assert len(renames) == 3
        assert set(found[: renames[-1] + 1]) == {at_first}
        assert set(found[renames[-1] + 1 :]) == {"new"}
        assert ("os.remove model" in " ".join(events)) == (at_first == "old")


def test_two_that_save_into_one_folder_always_leave_one_that_loads_also_while_a_third_reads(
    tmp_path,
):
    """Both save two models in turn, with pauses in which this process reads."""
    crashes.made("old").save(tmp_path)
    writers = together(2, save_in_turn, tmp_path, join=False)
    read = [held(tmp_path)]
    while not writers.join(0):
        read.append(held(tmp_path))
    assert held(tmp_path) == "new"  # what both saved last
    assert len(read) > 1  # while they wrote


def test_only_what_was_replaced_and_what_a_kill_left_an_hour_ago_is_deleted(tmp_path):
    made, ago = untrained(), time.time() - 3700
    mark = "0123456789abcdef" * 2
    strange = ["model-00001-of-00002.safetensors", "tokenizer-mine.json", ".unfinished-notes",
               "notes.txt"]  # fmt: skip
    left = [f"model-{mark}.safetensors", f"tokenizer-{mark}.json", f".unfinished-{mark}"]
    fresh = [name.replace("0123", "4567") for name in left]
    for name in (*strange, *left, *fresh):
        (tmp_path / name).write_text("")
    for name in (*strange, *left):
        os.utime(tmp_path / name, (ago, ago))
    (tmp_path / CONFIG).write_text(json.dumps({"sums": {CONFIG: "", "notes.txt": ""}}))  # a lie
    made.save(tmp_path)
    first = weights_file(tmp_path)
    made.save(tmp_path)
    assert weights_file(tmp_path) != first
    assert listed(tmp_path) == sorted([CONFIG, weights_file(tmp_path).name, *strange, *fresh])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            put("decoder.layers.1", feed_forward=nn.Identity()),
            "layers.1.feed_forward \\(Identity\\)",
        ),
        (put("generator", __class__=type("Own", (Linear,), {})), "another generator \\(Own\\)"),
        (
            put("decoder.layers.0.self_attention", n_heads=1),
            "another decoder.layers.0.self_attention",
        ),
        (
            put("encoder.layers.0.feed_forward_residual", pre=True),
            "another encoder.layers.0.feed_f",
        ),
        (lambda m: m.decoder.layers.pop(-1), "what its configuration makes"),
        (put("", config=small_config(**SIZES, n_layers=3)), "what its configuration makes"),
        (lambda m: m.to("meta"), "parameters that have numbers, got"),
        (lambda m: m.generator.weight.data.fill_(1e30), "an infinite one in generator.* bfloat16"),
    ],
)
def test_what_load_could_not_restore_is_not_saved_over_what_is_there(tmp_path, change, message):
    made, changed = untrained(), untrained()
    made.save(tmp_path)
    change(changed.model)
    with pytest.raises(ValueError, match=message):
        changed.save(tmp_path, dtype=torch.float16)
    assert len(listed(tmp_path)) == 2
    assert holds(tmp_path, made)


def test_nor_is_a_model_whose_ties_are_broken(tmp_path):
    made = untrained(tie_embeddings="output")
    made.model.generator.weight = nn.Parameter(made.model.generator.weight.detach() + 1)
    with pytest.raises(ValueError, match="is tied as configured"):
        made.save(tmp_path)


# --- Read with distrust -----------------------------------------------------------------------


def other(model=None, **values):
    """Another configuration."""

    def edit(folder):
        kept = json.loads((folder / CONFIG).read_text())
        kept |= {**values, "model": kept["model"] | (model or {})}
        (folder / CONFIG).write_text(json.dumps(kept))

    return edit


def written(content):
    return lambda folder: (folder / CONFIG).write_bytes(content)


def instead(name, put):
    """Something else in the place of a file."""

    def replace(folder):
        path = folder / CONFIG if name == CONFIG else weights_file(folder)
        path.unlink()
        put(path)

    return replace


def turned(folder):
    """One bit of the last weight is another."""
    data = bytearray(weights_file(folder).read_bytes())
    data[-1] ^= 1
    weights_file(folder).write_bytes(data)


def outside(folder):
    weights = weights_file(folder).rename(folder.parent / "outside.safetensors")
    other(sums={"../outside.safetensors": digest(weights)})(folder)


def with_nan(folder):
    """And a configuration that it belongs to."""
    weights = weights_file(folder)
    write_tensors(weights, {name: x * torch.nan for name, x in read_tensors(weights).items()})
    other(sums={weights.name: digest(weights)})(folder)


NO_FOLDER = "a folder with config.json and the weights that it names, got No such file"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (instead(CONFIG, lambda path: None), NO_FOLDER),
        (instead("weights", lambda path: None), NO_FOLDER),
        (instead(CONFIG, lambda path: path.symlink_to("/dev/zero")), "a config.json that is no fi"),
        (written(b"[" * 100_000), "got maximum recursion"),
        (written(b'"\x1b[2J' + b"a" * 9999), "Invalid control"),
        (lambda folder: os.truncate(folder / CONFIG, 10**8), "a config.json of 100,000,000"),
        (instead("weights", lambda path: path.symlink_to("/proc/self/pagemap")), ""),  # endless
        (turned, ".safetensors that config.json does not belong to"),
        (outside, "which is none of a model's"),
        (other(sums={"/dev/zero": "0"}), "got a file '/dev/zero', which"),
        (other(format="x 2"), "got the format 'x 2' instead of "),
        (other(model={"size": 3}), "unexpected keyword argument 'size'"),
        (other(model={"n_layers": 10**4}), "got 20,000 layers and weights of "),
        (other(model={"d_ff": 10**30}), "got sizes that no memory has room for"),
        (with_nan, "got weights: expected finite numbers, got NaN in"),
    ],
)
def test_damage_is_named_with_the_folder(tmp_path, damage, message):
    untrained().save(tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(ValueError, match=r"; \w") as error:
        Translator.load(tmp_path / "model")
    said = str(error.value)
    assert said.startswith(f"{tmp_path}/model: expected a")
    assert message in said
    assert said.isprintable()
    assert len(said) < 900
