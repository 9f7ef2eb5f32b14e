"""Sentences in, sentences out, in the order given; and what is kept in a folder, whole or not."""

import json
import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from helpers import small_config, small_model
from unmasked import Transformer, translator
from unmasked.config import BOS, EOS, PADDING
from unmasked.data.vocabulary import Words
from unmasked.loss import translation_loss
from unmasked.search import beam, greedy
from unmasked.training.fit import fit
from unmasked.translator import CONFIG, WEIGHTS, Translator

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


def test_sentences_of_a_length_go_together_and_the_longest_first(monkeypatch):
    """What is too long, or takes too much memory, fails at once and not after an hour."""
    shapes = []
    monkeypatch.setattr(
        translator, "greedy", lambda *given: shapes.append(given[1].shape) or greedy(*given)
    )
    untrained().translate(["a", "b c d", "", "a b", "c c c", "b"], batch_size=2, max_new_tokens=1)
    assert shapes == [(2, 4), (2, 3), (1, 2)]


def test_settings_reach_the_search(monkeypatch):
    made = untrained(embedding_std=1.0)
    assert all(len(text.split()) <= 2 for text in made.translate(["a", "b c"], max_new_tokens=2))
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
    made = untrained(dropout=0.5)
    made.model.train()
    assert made.translate(["a b"]) == made.translate(["a b"])
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


def test_a_folder_holds_two_files_that_whoever_reads_one_may_read(tmp_path):
    untrained().save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [CONFIG, WEIGHTS]
    assert (tmp_path / CONFIG).stat().st_mode == (tmp_path / WEIGHTS).stat().st_mode
    assert "ä" not in (tmp_path / CONFIG).read_text(encoding="utf-8")


def test_a_kill_between_the_two_files_leaves_nothing_that_loads_wrongly(tmp_path, monkeypatch):
    first, second = untrained(), untrained()
    first.save(tmp_path)
    replace = Path.replace

    def killed_at(name):
        def stop(path, target):
            if Path(target).name == name:
                raise KeyboardInterrupt
            return replace(path, target)

        return stop

    monkeypatch.setattr(Path, "replace", killed_at(WEIGHTS))
    with pytest.raises(KeyboardInterrupt):
        second.save(tmp_path)
    kept, own = (m.model.generator.weight for m in (Translator.load(tmp_path), first))
    assert torch.equal(kept, own)
    monkeypatch.setattr(Path, "replace", killed_at(CONFIG))
    with pytest.raises(KeyboardInterrupt):
        second.save(tmp_path)
    with pytest.raises(ValueError, match=r"got a model\.safetensors that config\.json does not"):
        Translator.load(tmp_path)
    monkeypatch.setattr(Path, "replace", replace)
    second.save(tmp_path)
    kept, own = (m.model.generator.weight for m in (Translator.load(tmp_path), second))
    assert torch.equal(kept, own)


def test_a_full_disk_is_said_and_what_was_there_stays(tmp_path, monkeypatch):
    made = untrained()
    made.save(tmp_path)

    def full(*_, **__):
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(translator, "write_tensors", full)
    message = r"the model could not be written \(No space left on device\); choose a folder with"
    with pytest.raises(OSError, match=message):
        untrained().save(tmp_path)
    assert torch.equal(
        Translator.load(tmp_path).model.generator.weight, made.model.generator.weight
    )


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
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[-1] ^= 1
    (folder / WEIGHTS).write_bytes(data)


FOLDER = "expected a folder with config.json and model.safetensors, got No such file or directory"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / CONFIG).unlink(), FOLDER),
        (lambda folder: (folder / WEIGHTS).unlink(), FOLDER),
        (lambda folder: (folder / CONFIG).write_text("{"), "got Expecting property name"),
        (lambda folder: (folder / CONFIG).write_bytes(b"\xff"), "got 'utf-8' codec can't decode"),
        (lambda folder: (folder / CONFIG).write_text("[1]"), "got list indices must be"),
        (lambda folder: (folder / WEIGHTS).write_bytes(b""), "got a model.safetensors that"),
        (turned, "got a model.safetensors that config.json does not belong to"),
        (edited(lambda kept: kept | {"format": "x 2"}), "got the format 'x 2' instead of "),
        (without("format"), "got no 'format'"),
        (without("sums"), "got no 'sums'"),
        (without("about"), "got no 'about'"),
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
    assert max(len(text.split()) for text in made.translate(["a b c", "d"])) <= 4
