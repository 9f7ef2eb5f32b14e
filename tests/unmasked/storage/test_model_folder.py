"""A model's folder: whole whatever happens, and read with distrust."""

import copy
import errno
import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from helpers import same_tensors, small_config
from unmasked import Transformer
from unmasked.storage import model as folder
from unmasked.storage.files import digest, read_tensors, tensors_of, write_tensors
from unmasked.storage.model import CONFIG, weights_file
from unmasked.tokens import EOS, Subwords, Words
from unmasked.translator import Translator

SMALL, LARGE = Words.of(["a b c d e f"]), Words.of(["A B C D E F"])
SIZES = {"source_vocab": len(SMALL), "target_vocab": len(LARGE)}


def untrained(**changes):
    return Translator(Transformer(small_config(**SIZES, **changes)).eval(), SMALL, LARGE)


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
    made.about["recipe"] = {"training": {"steps": 3}, "name": "ä"}
    made.save(tmp_path / "new" / "folder")
    again = Translator.load(str(tmp_path / "new" / "folder"))
    source, target = made.corpus([("a b c", "A B"), ("d", "D E F"), ("e f", "F")]).batch(range(3))
    assert torch.equal(made.model(source, target), again.model(source, target))
    assert again.model.config == made.model.config
    assert (again.source.words, again.target.words) == (SMALL.words, LARGE.words)
    assert again.about == made.about
    assert not again.model.training
    assert again.translate(["a b", "c"]) == made.translate(["a b", "c"])


def test_sizes_of_numpy_are_kept_as_numbers(tmp_path):
    words = Words.of(["a b c"])
    model = Transformer(small_config(source_vocab=np.int64(6), target_vocab=np.int64(6)))
    Translator(model, words, words, {"loss": np.float32(0.5)}).save(tmp_path)
    again = Translator.load(tmp_path)
    assert (again.model.config.source_vocab, again.about) == (6, {"loss": 0.5})


def listed(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_holds_two_files_that_whoever_reads_one_may_read(tmp_path):
    untrained().save(tmp_path)
    config, weights = tmp_path / CONFIG, weights_file(tmp_path)
    assert listed(tmp_path) == [config.name, weights.name]
    assert config.stat().st_mode == weights.stat().st_mode
    assert list(json.loads(config.read_text(encoding="utf-8"))["sums"]) == [weights.name]


def test_letters_are_written_as_they_are(tmp_path):
    words = Words.of(["größer"])
    model = Transformer(small_config(source_vocab=len(words), target_vocab=len(words)))
    Translator(model, words, words, {"by": "Zoë"}).save(tmp_path)
    text = (tmp_path / CONFIG).read_text(encoding="utf-8")
    assert '"größer"' in text
    assert '"Zoë"' in text


def full(*_, **__):
    raise SafetensorError("No space left on device")


def denied(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("where", "fails", "error"),
    [
        (
            "unmasked.storage.model.write_tensors",
            full,
            r"written \(No space left on device\); choose a",
        ),
        ("pathlib.Path.write_text", denied, r"written \(.*No space left on device\); choose a"),
        ("os.fsync", denied, r"could not be written \(.*No space left"),
        ("pathlib.Path.replace", denied, r"could not be written \(.*No space left"),
        ("unmasked.storage.model.digest", denied, r"could not be written \(.*No space left"),
    ],
)
def test_a_save_that_fails_leaves_the_folder_as_it_was(tmp_path, monkeypatch, where, fails, error):
    made = untrained()
    made.save(tmp_path)
    before = listed(tmp_path)
    other = untrained()
    monkeypatch.setattr(where, fails)
    with pytest.raises(OSError, match=error):
        other.save(tmp_path)
    monkeypatch.undo()
    assert listed(tmp_path) == before
    kept, own = (m.model.generator.weight for m in (Translator.load(tmp_path), made))
    assert torch.equal(kept, own)


@pytest.mark.parametrize("stop", range(3))
def test_a_save_that_is_stopped_before_a_file_has_its_name_leaves_the_folder_as_it_was(
    tmp_path, monkeypatch, stop
):
    """As with Ctrl-C; the third is config.json, and after it the new model is there."""
    made, other = in_subwords("one"), in_subwords("another")
    made.save(tmp_path)
    before, replace, count = listed(tmp_path), Path.replace, iter(range(9))

    def stopping(path, target):
        if next(count) == stop:
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", stopping)
    with pytest.raises(KeyboardInterrupt):
        other.save(tmp_path)
    monkeypatch.undo()
    assert listed(tmp_path) == before
    assert same_tensors(*(tensors_of(m.model) for m in (Translator.load(tmp_path), made)))
    other.save(tmp_path)
    assert len(listed(tmp_path)) == 3
    assert same_tensors(*(tensors_of(m.model) for m in (Translator.load(tmp_path), other)))


def test_a_save_that_is_stopped_when_the_new_model_has_its_name_keeps_it(tmp_path, monkeypatch):
    made, other, replace = untrained(), untrained(), Path.replace

    def stopping(path, target):
        replace(path, target)
        if target.name == CONFIG:
            raise KeyboardInterrupt
        return target

    made.save(tmp_path)
    monkeypatch.setattr(Path, "replace", stopping)
    with pytest.raises(KeyboardInterrupt):
        other.save(tmp_path)
    monkeypatch.undo()
    assert len(listed(tmp_path)) == 2
    assert same_tensors(*(tensors_of(m.model) for m in (Translator.load(tmp_path), other)))


def saved(mode, folder):
    """What `saving.py` says of processes that die or meet."""
    command = [sys.executable, "-m", "helpers.saving", mode, folder]
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=alone, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_process_killed_at_random_moments_of_saving_leaves_a_folder_that_loads(tmp_path):
    said = saved("kills", tmp_path)
    assert len(said["loaded"]) == 15
    assert said["cut off"] > 0  # it died within a saving, and not only between two


def test_a_process_killed_before_any_operation_of_a_save_leaves_the_old_model_or_the_new(tmp_path):
    """The new one from the moment at which config.json has its name."""
    said = saved("points", tmp_path)
    for case, at_first in (("over", "old"), ("first", "nothing")):
        events, holds = zip(*said[case], strict=True)
        renames = [number for number, event in enumerate(events) if event.startswith("os.rename")]
        assert len(renames) == 3
        through = renames[-1] + 1
        assert set(holds[:through]) == {at_first}
        assert set(holds[through:]) == {"new"}
    assert "os.remove model" in " ".join(event for event, _ in said["over"])


def test_two_that_save_into_one_folder_always_leave_one_that_loads_also_while_a_third_reads(
    tmp_path,
):
    said = saved("two", tmp_path)
    assert said["end"] == "new"  # what both saved last
    assert len(said["read"]) > 1  # meanwhile; each a whole one, or `saving.py` would say so


def test_what_is_replaced_while_it_is_read_is_read_anew(tmp_path, monkeypatch):
    first, second, real = untrained(), untrained(), folder.read_tensors
    first.save(tmp_path)

    def slow(path):
        monkeypatch.undo()
        second.save(tmp_path)
        assert not path.exists()
        return real(path)

    monkeypatch.setattr(folder, "read_tensors", slow)
    read = Translator.load(tmp_path)
    assert same_tensors(tensors_of(read.model), tensors_of(second.model))


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
    second = weights_file(tmp_path)
    assert first != second
    assert listed(tmp_path) == sorted([CONFIG, second.name, *strange, *fresh])


def test_a_configuration_that_names_what_is_not_the_models_has_nothing_deleted(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / CONFIG).write_text(json.dumps({"sums": {CONFIG: "", "notes.txt": ""}}))
    untrained().save(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert Translator.load(tmp_path).source.words == SMALL.words


@pytest.mark.parametrize("absolute", [False, True])
def test_a_name_that_points_outside_the_folder_is_not_read(tmp_path, absolute):
    folder, outside = tmp_path / "folder", tmp_path / "outside.safetensors"
    untrained().save(folder)
    weights_file(folder).rename(outside)
    name = str(outside) if absolute else "../outside.safetensors"
    edited(lambda kept: kept | {"sums": {name: digest(outside)}})(folder)
    with pytest.raises(ValueError, match=r"got a file '.*', which is none of a model's;"):
        Translator.load(folder)


def in_subwords(text="der alte hund"):
    words = Subwords.of([text, "the dog"], 40)
    model = Transformer(small_config(source_vocab=len(words), target_vocab=len(words)))
    return Translator(model.eval(), words, words)


@pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"]
)
def test_a_copy_reads_the_name_of_a_special_token_as_text_too(again, tmp_path):
    made = in_subwords()
    other, texts = again(made), ["der <eos> hund", "<pad> the <bos> dog"]
    ids = made.tokens(texts).tolist()
    assert other.tokens(texts).tolist() == ids
    assert [row.count(EOS) for row in ids] == [1, 1]
    assert other.source is other.target
    assert other.source is not made.source
    other.save(tmp_path)
    assert Translator.load(tmp_path).tokens(texts).tolist() == ids
    assert same_tensors(tensors_of(other.model), tensors_of(made.model))


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"could not be written \(.*File exists"):
        untrained().save(tmp_path / "file")
    with pytest.raises(ValueError, match="expected a folder with config"):
        Translator.load(tmp_path / "file")


def edited(change):
    def edit(folder):
        kept = json.loads((folder / CONFIG).read_text())
        (folder / CONFIG).write_text(json.dumps(change(kept)))

    return edit


def without(name):
    return edited(lambda kept: {key: value for key, value in kept.items() if key != name})


def turned(folder):
    """One bit of the last weight is another."""
    data = bytearray(weights_file(folder).read_bytes())
    data[-1] ^= 1
    weights_file(folder).write_bytes(data)


def huge(**sizes):
    return edited(lambda kept: kept | {"model": kept["model"] | sizes})


def linked(name):
    """A device where a file was: to read it would take for ever."""

    def link(folder):
        path = folder / name if name == CONFIG else weights_file(folder)
        path.unlink()
        path.symlink_to("/dev/zero")

    return link


def piped(folder):
    weights = weights_file(folder)
    weights.unlink()
    os.mkfifo(weights)


def with_tensors(change):
    def write(folder):
        weights = weights_file(folder)
        write_tensors(weights, {name: change(x) for name, x in read_tensors(weights).items()})
        edited(lambda kept: kept | {"sums": {weights.name: digest(weights)}})(folder)

    return write


FOLDER = "expected a folder with config.json and the weights that it names, got No such file"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / CONFIG).unlink(), FOLDER),
        (lambda folder: weights_file(folder).unlink(), FOLDER),
        (lambda folder: (folder / CONFIG).write_text("{"), "got Expecting property name"),
        (lambda folder: (folder / CONFIG).write_bytes(b"\xff"), "got 'utf-8' codec can't decode"),
        (lambda folder: (folder / CONFIG).write_text("[1]"), "got list indices must be"),
        (lambda folder: weights_file(folder).write_bytes(b""), "a safetensors file"),
        (turned, ".safetensors that config.json does not belong to"),
        (edited(lambda kept: kept | {"format": "x 2"}), "got the format 'x 2' instead of "),
        (without("format"), "got no 'format'"),
        (without("sums"), "got no 'sums'"),
        (without("about"), "got no 'about'"),
        (edited(lambda kept: kept | {"sums": []}), "got 'list' object has no attribute 'items'"),
        (edited(lambda kept: kept | {"sums": {}}), "got no '.safetensors'"),
        (edited(lambda kept: kept | {"about": "b"}), "got about: expected a dict, got str"),
        (edited(lambda kept: kept | {"source": 5}), "expected a model's folder, got "),
        (edited(lambda kept: kept | {"target": ["a"]}), "got words: expected <pad> <bos> <eos>, "),
        (edited(lambda kept: kept | {"source": SMALL.words[:-1]}), "got source: expected the "),
        (edited(lambda kept: kept | {"model": {}}), "missing 2 required keyword-only arguments"),
        (edited(lambda kept: kept | {"model": kept["model"] | {"n_heads": 3}}), "got n_heads: exp"),
        (huge(d_ff=99), "expected shape"),
        (huge(n_layers=10**4), "got 20,000 layers and weights of "),
        (huge(d_ff=10**15), "feed_forward"),
        (huge(d_ff=2**62), "got sizes that no memory has room for"),
        (huge(d_ff=10**30), "got sizes that no memory has room for"),
        (huge(max_len=10**9), "got max_len: expected at most "),
        (huge(dropout=10**400), "got dropout: expected a probability"),
        (edited(lambda kept: kept | {"sums": {"/dev/zero": "0"}}), "got a file '/dev/zero', which"),
        (edited(lambda kept: kept | {"sums": [1]}), "got 'list' object has no attribute 'items'"),
        (edited(lambda kept: kept | {"target": [*SMALL.words[:-1], 5]}), "got words: expected "),
        (lambda folder: (folder / CONFIG).write_text("[" * 100_000), "got maximum recursion"),
        (lambda folder: (folder / CONFIG).write_text('"\x1b[2J' + "a" * 9999), "Invalid control"),
        (linked(CONFIG), "got a config.json that is no file"),
        (linked("weights"), ".safetensors that is no file"),
        (piped, ".safetensors that is no file"),
        (with_tensors(lambda x: x * torch.nan), "got weights: expected finite numbers, got NaN in"),
        (with_tensors(lambda x: x.bool()), "got weights of the type torch.bool"),
        (with_tensors(lambda x: x.to(torch.float8_e4m3fn)), "got weights of the type torch.float8"),
    ],
)  # fmt: skip
def test_damage_is_named_with_the_folder(tmp_path, damage, message):
    untrained().save(tmp_path)
    damage(tmp_path)
    with pytest.raises(ValueError, match=r"; \w") as error:
        Translator.load(tmp_path)
    assert str(error.value).startswith(f"{tmp_path}: expected a")
    assert message in str(error.value)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 900


def test_an_endless_configuration_is_not_read(tmp_path, monkeypatch):
    untrained().save(tmp_path)
    monkeypatch.setattr(folder, "TEXT", 100)
    with pytest.raises(
        ValueError, match=r"got a config.json of [\d,]+ bytes; its files are damaged"
    ):
        Translator.load(tmp_path)


def test_weights_that_are_no_numbers_are_not_saved_and_what_was_there_stays(tmp_path):
    made = untrained()
    made.save(tmp_path)
    before = listed(tmp_path)
    with torch.no_grad():
        made.model.generator.weight[0, 0] = 1e30
    with pytest.raises(ValueError, match=r"got an infinite one in generator.*: choose bfloat16"):
        made.save(tmp_path, dtype=torch.float16)
    made.save(tmp_path / "other")  # in float32 it is a number
    assert listed(tmp_path) == sorted([*before, "other"])


def test_weights_are_rounded_to_numbers_with_a_point(tmp_path):
    with pytest.raises(ValueError, match=r"dtype: expected None or torch\.float16 or"):
        untrained().save(tmp_path, dtype=torch.int8)
    assert listed(tmp_path) == []


@pytest.mark.parametrize("data", [3, {"x": 1}, {"name": []}, {"name": "multi30k", "x": 1}])
def test_what_others_say_about_a_model_says_no_languages(tmp_path, data):
    made = untrained()
    made.about["recipe"] = {"data": data}
    made.save(tmp_path)
    assert Translator.load(tmp_path).languages is None
    made.about["recipe"] = [1]
    assert made.languages is None
