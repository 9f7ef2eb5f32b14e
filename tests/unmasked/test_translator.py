"""Sentences in, sentences out, in the order given; and what is kept in a folder, whole or not."""

import copy
import errno
import json
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from helpers import same_tensors, small_config, small_model
from unmasked import Transformer, translator
from unmasked.config import BOS, EOS, PADDING
from unmasked.data.vocabulary import Subwords, Words
from unmasked.loss import translation_loss
from unmasked.search import beam, greedy
from unmasked.storage import digest, tensors_of
from unmasked.training.fit import fit
from unmasked.translator import CONFIG, Translator, weights_file

SMALL, LARGE = Words.of(["a b c d e f"]), Words.of(["A B C D E F"])
SIZES = {"source_vocab": len(SMALL), "target_vocab": len(LARGE)}


def untrained(**changes):
    return Translator(Transformer(small_config(**SIZES, **changes)).eval(), SMALL, LARGE)


def drawn(count, longest=7, seed=1):
    """Sentences of the letters a to f, of all lengths, and the same in capitals."""
    dice = random.Random(seed)
    texts = [" ".join(dice.choices("abcdef", k=dice.randint(1, longest))) for _ in range(count)]
    return [(text, text.upper()) for text in texts]


@cache
def trained():
    """Taught for two seconds to write capitals: it ends its sentences, each at another time."""
    torch.manual_seed(0)
    made = untrained(d_model=32, n_heads=2, n_layers=1, dropout=0.0, norm="pre")
    corpus = made.corpus(drawn(64 * 120))
    batches = [corpus.batch(range(start, start + 64)) for start in range(0, len(corpus), 64)]
    fit(made.model, translation_loss, batches, rate=1e-2)
    made.model.double()
    return made


def test_sentences_become_tokens_with_their_marks():
    made = untrained()
    assert made.tokens(["a c", "b"]).tolist() == [[3, 5, EOS], [4, EOS, PADDING]]
    corpus = made.corpus([("a c", "F"), ("b", "A B")])
    assert corpus.source == [[3, 5, EOS], [4, EOS]]
    assert corpus.target == [[BOS, 8, EOS], [BOS, 3, 4, EOS]]


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 4, 128])
def test_each_translation_is_the_one_found_alone_and_in_its_place(beam_size, batch_size):
    made = trained()
    sentences = [text for text, _ in drawn(23, seed=2)]
    found = made.translate(sentences, beam_size=beam_size, batch_size=batch_size)
    for sentence, written in zip(sentences, found, strict=True):
        source = made.tokens([sentence])
        if beam_size == 1:
            tokens = greedy(made.model, source)
        else:
            tokens = beam(made.model, source, beam_size).tokens[:, 0]
        assert written == LARGE.decode(tokens[0].tolist())
    right = sum(a.upper() == b for a, b in zip(sentences, found, strict=True))
    assert right > 15  # so that the places are told apart
    assert len(set(found)) > 15


def test_samples_are_those_of_the_search_each_in_its_place():
    made = trained()
    sentences = ["a b c d", "", "b a"]
    found = made.sample(sentences, 40, temperature=2.0, top_k=5, seed=3)
    assert [len(texts) for texts in found] == [40, 0, 40]
    assert found == made.sample(sentences, 40, temperature=2.0, top_k=5, seed=3)
    assert found != made.sample(sentences, 40, temperature=2.0, top_k=5, seed=4)
    assert "A B C D" in found[0]
    assert "B A" in found[2]
    assert len(set(found[0])) > 5
    [[alone]] = made.sample(["b a"], top_p=1e-6)
    assert alone == made.translate(["b a"])[0]
    with pytest.raises(ValueError, match=r"^n_samples: expected a whole number of at least 1"):
        made.sample(["a"], 0)
    with pytest.raises(ValueError, match=r"^sentences: expected a list of sentences"):
        made.sample("a")


def test_sentences_of_a_length_go_together_and_the_longest_first(monkeypatch):
    """What is too long, or takes too much memory, fails at once and not after an hour."""
    shapes = []
    monkeypatch.setattr(
        translator, "greedy", lambda *given: shapes.append(given[1].shape) or greedy(*given)
    )
    untrained().translate(["a", "b c d", "", "a b", "c c c", "b"], batch_size=2, max_new_tokens=1)
    assert shapes == [(2, 4), (2, 3), (1, 2)]


def test_settings_reach_the_search(monkeypatch):
    made = trained()
    for beam_size in (1, 3):
        [whole] = made.translate(["a b c d"], beam_size=beam_size)
        assert len(whole.split()) > 2
        [cut] = made.translate(["a b c d"], beam_size=beam_size, max_new_tokens=2)
        assert len(cut.split()) == 2
    given = {}
    monkeypatch.setattr(
        translator, "beam", lambda *a, **options: given.update(options) or beam(*a, **options)
    )
    made.translate(["a"], beam_size=2, length_penalty=0.25)
    assert given == {"length_penalty": 0.25}


def test_an_empty_sentence_stays_empty():
    made = trained()
    assert made.translate([]) == []
    assert made.translate(["", " \t"]) == ["", ""]
    one, blank, two = made.translate(["a b", "", "c"])
    assert [one, blank, two] == [*made.translate(["a b"]), "", *made.translate(["c"])]


def test_a_model_in_training_goes_on_training():
    made = untrained(dropout=0.5, embedding_std=1.0)
    sentences = [text for text, _ in drawn(20)]
    expected = made.translate(sentences)
    assert len(set(expected)) > 5
    made.model.train()
    assert made.translate(sentences) == expected  # without dropout
    assert made.model.training


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("progress", [True, False])
def test_the_progress_bar_is_for_a_terminal(monkeypatch, terminal, progress):
    bars = []

    class Bar:
        def __init__(self, **options):
            self.shown, self.total, self.done = not options.get("disable"), options["total"], 0
            bars.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def update(self, count):
            self.done += count

    monkeypatch.setattr(translator, "tqdm", Bar)
    monkeypatch.setattr(translator.sys.stderr, "isatty", lambda: terminal)
    untrained().translate(["a", "b c", "", "d"], progress=progress, batch_size=2, max_new_tokens=1)
    assert [(bar.shown, bar.total, bar.done) for bar in bars] == [(terminal and progress, 3, 3)]


# --- On disk ----------------------------------------------------------------------------------


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
    source, target = made.corpus(drawn(5)).batch(range(5))
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
            "unmasked.translator.write_tensors",
            full,
            r"written \(No space left on device\); choose a",
        ),
        ("pathlib.Path.write_text", denied, r"written \(.*No space left on device\); choose a"),
        ("os.fsync", denied, r"could not be written \(.*No space left"),
        ("pathlib.Path.replace", denied, r"could not be written \(.*No space left"),
        ("unmasked.translator.digest", denied, r"could not be written \(.*No space left"),
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


def test_what_cannot_be_json_leaves_nothing_behind(tmp_path):
    made = untrained()
    made.about["made"] = object()
    with pytest.raises(AttributeError, match="item"):
        made.save(tmp_path)
    assert listed(tmp_path) == []


def saved(mode, folder):
    """What `saving.py` says of processes that die or meet."""
    command = [sys.executable, Path(__file__).with_name("saving.py"), mode, folder]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
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
    first, second, real = untrained(), untrained(), translator.read_tensors
    first.save(tmp_path)

    def slow(path):
        monkeypatch.undo()
        second.save(tmp_path)
        assert not path.exists()
        return real(path)

    monkeypatch.setattr(translator, "read_tensors", slow)
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
    with pytest.raises(ValueError, match=re.escape(FOLDER)):
        Translator.load(folder)
    shutil.copy(outside, folder)  # nothing else was wrong
    outside.write_bytes(b"of no model")
    assert Translator.load(folder).source.words == SMALL.words


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


FOLDER = "expected a folder with config.json and the weights that it names, got No such file"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / CONFIG).unlink(), FOLDER),
        (lambda folder: weights_file(folder).unlink(), FOLDER),
        (lambda folder: (folder / CONFIG).write_text("{"), "got Expecting property name"),
        (lambda folder: (folder / CONFIG).write_bytes(b"\xff"), "got 'utf-8' codec can't decode"),
        (lambda folder: (folder / CONFIG).write_text("[1]"), "got list indices must be"),
        (lambda folder: weights_file(folder).write_bytes(b""), "got a model-"),
        (turned, ".safetensors that config.json does not belong to"),
        (edited(lambda kept: kept | {"format": "x 2"}), "got the format 'x 2' instead of "),
        (without("format"), "got no 'format'"),
        (without("sums"), "got no 'sums'"),
        (without("about"), "got no 'about'"),
        (edited(lambda kept: kept | {"sums": []}), "got 'list' object has no attribute 'items'"),
        (edited(lambda kept: kept | {"sums": {}}), "got no '.safetensors'"),
        (edited(lambda kept: kept | {"about": "b"}), "expected a model's folder, got dictionary"),
        (edited(lambda kept: kept | {"source": 5}), "expected a model's folder, got "),
        (edited(lambda kept: kept | {"target": ["a"]}), "got words: expected <pad> <bos> <eos>, "),
        (edited(lambda kept: kept | {"source": SMALL.words[:-1]}), "got source: expected the "),
        (edited(lambda kept: kept | {"model": {}}), "missing 2 required keyword-only arguments"),
        (edited(lambda kept: kept | {"model": kept["model"] | {"n_heads": 3}}), "got n_heads: exp"),
        (edited(lambda kept: kept | {"model": kept["model"] | {"d_ff": 99}}), "expected shape"),
    ],
)  # fmt: skip
def test_damage_is_named_with_the_folder(tmp_path, damage, message):
    untrained().save(tmp_path)
    damage(tmp_path)
    with pytest.raises(ValueError, match=r"; \w") as error:
        Translator.load(tmp_path)
    assert str(error.value).startswith(f"{tmp_path}: expected a")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


# --- Refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: untrained().translate("a b"),
            "sentences: expected a list of sentences, got a single text; put it in a list, even "
            "if it is alone",
        ),
        (
            lambda: untrained().translate(["a", "", "b z"]),
            "sentence 3: expected one of the 9 words that the model has learnt, got 'z'; write in "
            "lower case, with blanks around , and ?",
        ),
        (
            lambda: untrained().translate(["a"], beam_size=0),
            "beam_size: expected a whole number of at least 1, got 0; pass 1 or more",
        ),
        (
            lambda: untrained().translate(["a"], beam_size=2.0),
            "beam_size: expected a whole number of at least 1, got 2.0; pass 1 or more",
        ),
        (
            lambda: untrained().translate(["a"], beam_size=10),
            "beam_size: expected at most the target vocabulary's 9, got 10; use a smaller beam",
        ),
        (
            lambda: untrained().translate(["a"], beam_size=2, length_penalty=-1.0),
            "length_penalty: expected a number from 0 to 10, got -1.0; 0 compares plain "
            "log-probabilities, more favours longer sentences",
        ),
        (
            lambda: untrained().translate(["a"], batch_size=0),
            "batch_size: expected a whole number of at least 1, got 0; pass 1 or more",
        ),
        (
            lambda: untrained(positions="learned", max_len=4).translate(["a", "a b c d"]),
            "positions: expected positions below max_len=4, got position 4; raise max_len and "
            "train again, or use positions='sinusoidal'",
        ),
        (
            lambda: Translator(small_model(), SMALL, LARGE),
            "source: expected the model's 23 words, got 9; make the model's configuration with "
            "len(words)",
        ),
        (
            lambda: Translator(None, SMALL, LARGE),
            "model: expected a Transformer, got NoneType; pass one",
        ),
    ],
)
def test_what_cannot_be_translated_is_refused(call, message):
    with pytest.raises(ValueError, match=r".") as error:
        call()
    assert str(error.value) == message


def test_learned_positions_bound_what_is_written():
    made = untrained(positions="learned", max_len=4, embedding_std=1.0)
    assert [len(text.split()) for text in made.translate(["a b c", "d"])] == [4, 4]
