"""A model's folder: whole whatever happens, and read with distrust."""

import copy
import errno
import json
import os
import pickle
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from helpers import same_tensors, small_config
from helpers.crashes import told
from unmasked import Transformer
from unmasked.storage import model as folder
from unmasked.storage.files import digest, read_tensors, tensors_of, write_tensors
from unmasked.storage.model import CONFIG, weights_file
from unmasked.tokens import Subwords, Words
from unmasked.translator import Translator

SMALL, LARGE = Words.of(["a b c d e größer"]), Words.of(["A B C D E F"])
SIZES = {"source_vocab": np.int64(len(SMALL)), "target_vocab": len(LARGE)}


def untrained(**changes):
    return Translator(Transformer(small_config(**SIZES, **changes)).eval(), SMALL, LARGE)


def in_subwords(text="der alte hund"):
    words = Subwords.of([text, "the dog"], 40)
    model = Transformer(small_config(source_vocab=len(words), target_vocab=len(words)))
    return Translator(model.eval(), words, words)


def listed(folder):
    return sorted(path.name for path in folder.iterdir())


def holds(folder, made):
    return same_tensors(*(tensors_of(m.model) for m in (Translator.load(folder), made)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positions": "learned", "max_len": 60, "norm": "pre", "tie_embeddings": "output"},
        {"tie_embeddings": True, "n_decoder_layers": 1, "output_bias": True},
    ],
)
def test_what_is_saved_is_loaded_to_the_last_bit(tmp_path, changes):
    made = untrained(**changes)
    made.about["recipe"] = {"loss": np.float32(0.5), "name": "Zoë"}
    made.save(tmp_path / "new" / "folder")
    again = Translator.load(str(tmp_path / "new" / "folder"))
    source, target = made.corpus([("a b c", "A B"), ("d", "D E F"), ("e", "F")]).batch()
    assert torch.equal(made.model(source, target), again.model(source, target))
    assert holds(tmp_path / "new" / "folder", made)
    assert again.model.config == made.model.config
    assert (again.source.words, again.target.words) == (SMALL.words, LARGE.words)
    assert again.about == made.about
    assert not again.model.training
    assert all(parameter.requires_grad for parameter in again.model.parameters())
    kept = read_tensors(weights_file(tmp_path / "new" / "folder"))
    assert sum(x.numel() for x in kept.values()) == made.model.count_parameters()  # nothing twice


def test_a_folder_holds_two_files_that_whoever_reads_one_may_read(tmp_path):
    untrained().save(tmp_path)
    config, weights = tmp_path / CONFIG, weights_file(tmp_path)
    assert listed(tmp_path) == [config.name, weights.name]
    assert config.stat().st_mode == weights.stat().st_mode
    text = config.read_text(encoding="utf-8")
    assert list(json.loads(text)["sums"]) == [weights.name]
    assert '"größer"' in text


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_is_saved_as_what_it_is_a_copy_of(again, tmp_path):
    made, texts = in_subwords(), ["der <eos> hund", "<pad> the <bos> dog"]
    again(made).save(tmp_path)
    assert Translator.load(tmp_path).tokens(texts).tolist() == made.tokens(texts).tolist()
    assert holds(tmp_path, made)


# --- Written whole, or not at all -------------------------------------------------------------


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("unmasked.storage.model.write_tensors", SafetensorError("No space left on device")),
        ("unmasked.storage.model.digest", FULL),
        ("pathlib.Path.write_text", FULL),
        ("pathlib.Path.replace", FULL),
        ("os.fsync", FULL),
    ],
)
def test_a_save_that_fails_leaves_the_folder_as_it_was(tmp_path, monkeypatch, where, error):
    made = untrained()
    made.save(tmp_path)
    before = listed(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(where, Mock(side_effect=error))
        with pytest.raises(OSError, match=r"could not be written \(.*No space left"):
            untrained().save(tmp_path)
    assert listed(tmp_path) == before
    assert holds(tmp_path, made)


@pytest.mark.parametrize(("stop", "named"), [(0, False), (1, False), (2, False), (2, True)])
def test_a_save_that_is_stopped_leaves_the_old_model_or_the_new_and_nothing_else(
    tmp_path, monkeypatch, stop, named
):
    """As with Ctrl-C, before a file has its name or after it; the third is config.json."""
    made, other = in_subwords("one"), in_subwords("another")
    made.save(tmp_path)
    before, replace, seen = listed(tmp_path), Path.replace, []

    def stopping(path, target):
        seen.append(path)
        if len(seen) == stop + 1 and not named:
            raise KeyboardInterrupt
        replace(path, target)
        if len(seen) == stop + 1:
            raise KeyboardInterrupt
        return target

    monkeypatch.setattr(Path, "replace", stopping)
    with pytest.raises(KeyboardInterrupt):
        other.save(tmp_path)
    monkeypatch.undo()
    assert (listed(tmp_path) == before) != named
    assert holds(tmp_path, other if named else made)
    other.save(tmp_path)
    assert len(listed(tmp_path)) == 3
    assert holds(tmp_path, other)


def test_a_process_killed_at_random_moments_of_saving_leaves_a_folder_that_loads(tmp_path):
    loaded, within = told("savings_killed", tmp_path)
    assert len(loaded) == 15
    assert within > 0  # a saving, and not only between two


def test_a_process_killed_before_any_operation_of_a_save_leaves_the_old_model_or_the_new(tmp_path):
    """The new one from the moment at which config.json has its name."""
    for at_first, deaths in told("saving_at_each_operation", tmp_path).items():
        events, found = zip(*deaths, strict=True)
        renames = [number for number, event in enumerate(events) if event.startswith("os.rename")]
        assert len(renames) == 3
        assert set(found[: renames[-1] + 1]) == {at_first}
        assert set(found[renames[-1] + 1 :]) == {"new"}
        assert ("os.remove model" in " ".join(events)) == (at_first == "old")


def test_two_that_save_into_one_folder_always_leave_one_that_loads_also_while_a_third_reads(
    tmp_path,
):
    read = told("two_savings", tmp_path)
    assert read[-1] == "new"  # what both saved last
    assert len(read) > 2


def test_what_is_replaced_while_it_is_read_is_read_anew(tmp_path, monkeypatch):
    first, second, real = untrained(), untrained(), folder.read_tensors
    first.save(tmp_path)

    def slow(path):
        monkeypatch.undo()
        second.save(tmp_path)
        assert not path.exists()
        return real(path)

    monkeypatch.setattr(folder, "read_tensors", slow)
    assert holds(tmp_path, second)


def test_only_what_was_replaced_and_what_a_kill_left_an_hour_ago_is_deleted(tmp_path):
    made, ago = untrained(), time.time() - 3700
    mark = "0123456789abcdef" * 2
    strange = ["model-00001-of-00002.safetensors", "tokenizer-mine.json", ".unfinished-notes"]
    left = [f"model-{mark}.safetensors", f"tokenizer-{mark}.json", f".unfinished-{mark}"]
    fresh = [name.replace("0123", "4567") for name in left]
    for name in (*strange, *left, *fresh):
        (tmp_path / name).write_text("")
    for name in (*strange, *left):
        os.utime(tmp_path / name, (ago, ago))
    made.save(tmp_path)
    first = weights_file(tmp_path)
    made.save(tmp_path)
    assert weights_file(tmp_path) != first
    assert listed(tmp_path) == sorted([CONFIG, weights_file(tmp_path).name, *strange, *fresh])


def test_a_configuration_that_names_what_is_not_the_models_has_nothing_deleted(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / CONFIG).write_text(json.dumps({"sums": {CONFIG: "", "notes.txt": ""}}))
    untrained().save(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert Translator.load(tmp_path).source.words == SMALL.words


def test_weights_that_are_no_numbers_are_not_saved_and_what_was_there_stays(tmp_path):
    made = untrained()
    made.save(tmp_path)
    before = listed(tmp_path)
    with torch.no_grad():
        made.model.generator.weight[0, 0] = 1e30
    with pytest.raises(ValueError, match=r"got an infinite one in generator.*: choose bfloat16"):
        made.save(tmp_path, dtype=torch.float16)
    with pytest.raises(ValueError, match=r"dtype: expected None or torch\.float16 or"):
        made.save(tmp_path, dtype=torch.int8)
    assert listed(tmp_path) == before
    made.save(tmp_path)  # in float32 it is a number


# --- Read with distrust -----------------------------------------------------------------------


def other(model=None, **values):
    """Another configuration; without what is `...`."""

    def edit(folder):
        kept = json.loads((folder / CONFIG).read_text())
        kept |= {**values, "model": kept["model"] | (model or {})}
        kept = {name: value for name, value in kept.items() if value is not ...}
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


def outside(folder, absolute):
    weights = weights_file(folder).rename(folder.parent / "outside.safetensors")
    name = str(weights) if absolute else "../outside.safetensors"
    other(sums={name: digest(weights)})(folder)


def with_tensors(change):
    def write(folder):
        weights = weights_file(folder)
        write_tensors(weights, {name: change(x) for name, x in read_tensors(weights).items()})
        other(sums={weights.name: digest(weights)})(folder)

    return write


NO_FOLDER = "a folder with config.json and the weights that it names, got No such file"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (instead(CONFIG, lambda path: None), NO_FOLDER),
        (instead("weights", lambda path: None), NO_FOLDER),
        (instead(CONFIG, lambda path: path.symlink_to("/dev/zero")), "a config.json that is no fi"),
        (instead("weights", lambda path: path.symlink_to("/dev/zero")), "tensors that is no file"),
        (instead("weights", os.mkfifo), ".safetensors that is no file"),
        (instead("weights", Path.touch), "a safetensors file"),
        (written(b"{"), "got Expecting property name"),
        (written(b"\xff"), "got 'utf-8' codec can't decode"),
        (written(b"[1]"), "got list indices must be"),
        (written(b"[" * 100_000), "got maximum recursion"),
        (written(b'"\x1b[2J' + b"a" * 9999), "Invalid control"),
        (turned, ".safetensors that config.json does not belong to"),
        (lambda folder: outside(folder, absolute=True), "which is none of a model's"),
        (lambda folder: outside(folder, absolute=False), "which is none of a model's"),
        (other(sums={"/dev/zero": "0"}), "got a file '/dev/zero', which"),
        (other(format=...), "got no 'format'"),
        (other(sums=...), "got no 'sums'"),
        (other(about=...), "got no 'about'"),
        (other(format="x 2"), "got the format 'x 2' instead of "),
        (other(sums=[1]), "got 'list' object has no attribute 'items'"),
        (other(sums={}), "got no '.safetensors'"),
        (other(about="b"), "got about: expected a dict, got str"),
        (other(source=5), "a model's folder, got "),
        (other(target=["a"]), "got words: expected <pad> <bos> <eos>, "),
        (other(target=[*SMALL.words[:-1], 5]), "got words: expected "),
        (other(source=SMALL.words[:-1]), "got source: expected the "),
        (other(model={"size": 3}), "unexpected keyword argument 'size'"),
        (other(model={"n_heads": 3}), "got n_heads: exp"),
        (other(model={"d_ff": 99}), "expected shape"),
        (other(model={"n_layers": 10**4}), "got 20,000 layers and weights of "),
        (other(model={"d_ff": 10**15}), "feed_forward"),
        (other(model={"d_ff": 2**62}), "got sizes that no memory has room for"),
        (other(model={"d_ff": 10**30}), "got sizes that no memory has room for"),
        (other(model={"max_len": 10**9}), "got max_len: expected at most "),
        (other(model={"dropout": 10**400}), "got dropout: expected a probability"),
        (with_tensors(lambda x: x * torch.nan), "got weights: expected finite numbers, got NaN in"),
        (with_tensors(lambda x: x.bool()), "got weights of the type torch.bool"),
        (with_tensors(lambda x: x.to(torch.float8_e4m3fn)), "got weights of the type torch.float8"),
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


@pytest.mark.parametrize(
    "recipe",
    [[1], *({"data": d} for d in (3, {"x": 1}, {"name": []}, {"name": "multi30k", "x": 1}))],
)
def test_what_others_say_about_a_model_says_no_languages(recipe):
    made = untrained()
    made.about["recipe"] = recipe
    assert made.languages is None
