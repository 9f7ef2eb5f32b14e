"""What two reviewers broke: each test says what a user should meet instead.

An error is to be one of ours, `argument: expected …, got …`; no raw one, and no silence.
"""

import io
import json
import math
import os
import shlex
import signal
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm
from torch.utils._python_dispatch import TorchDispatchMode

import unmasked.cli
from helpers import as_target, difference, ragged, same_tensors, small_config, small_model
from helpers.small_training import quiet, small
from unmasked import MultiHeadAttention, Transformer, check, translator
from unmasked.attention import attention
from unmasked.fast.guard import is_plain
from unmasked.fast.steps import FastSteps
from unmasked.interop import to_torch
from unmasked.loss import translation_loss
from unmasked.masks import padding_mask
from unmasked.search import Recomputed, beam, greedy, sample, steps_of
from unmasked.storage.files import digest, tensors_of, write_tensors
from unmasked.storage.model import CONFIG, weights_file
from unmasked.tokens import EOS, Subwords, Words
from unmasked.translator import Translator

SMALL, LARGE = Words.of(["a b c d e f"]), Words.of(["A B C D E F"])
SIZES = {"source_vocab": len(SMALL), "target_vocab": len(LARGE)}
SOURCE, TARGET = ragged([5, 3, 1]), as_target(ragged([4, 2, 3]))
SHORT = {"source_mask": padding_mask(SOURCE)[..., :-1]}
EVEN = ragged([3, 3, 3, 3])  # as many sentences as a model has heads
READ = padding_mask(EVEN)
ENCODE, DECODE = Transformer.encode, Transformer.decode
OURS = TypeError, ValueError  # what a refusal may be


def untrained(about=None, **changes):
    return Translator(Transformer(small_config(**SIZES, **changes)).eval(), SMALL, LARGE, about)


@contextmanager
def within(seconds):
    """Fails what would not end; with what is no Exception, so that nobody catches it."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"at work after {seconds} s"))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- Models that a reader has changed: never passed by in silence ---------------------------------


def changed(change):
    model = small_model()
    change(model)
    return model


def own(**methods):
    """A model of a class that a reader wrote."""
    return changed(lambda m: setattr(m, "__class__", type("Own", (Transformer,), methods)))


def louder(self, *given, **options):
    return 5 * Transformer.forward(self, *given, **options)


OWN_FORWARD = {
    "subclass": lambda: own(forward=louder),
    "instance": lambda: changed(lambda m: setattr(m, "forward", partial(louder, m))),
    "hook": lambda: changed(lambda m: m.register_forward_hook(lambda _, __, x: 5 * x)),
    "pre-hook": lambda: changed(lambda m: m.register_forward_pre_hook(lambda _, given: given)),
}
DOORS = {
    "loss": lambda model: translation_loss(model, SOURCE, TARGET),
    "packed": lambda model: translation_loss(model, SOURCE, TARGET, packed=True),
    "greedy": lambda model: greedy(model, SOURCE, 3),
    "beam": lambda model: beam(model, SOURCE, 2, 3),
    "sample": lambda model: sample(model, SOURCE, 3),
}


@pytest.mark.parametrize("make", OWN_FORWARD.values(), ids=OWN_FORWARD)
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_loss_and_search_refuse_a_model_whose_own_forward_they_would_not_call(make, door):
    with pytest.raises(OURS, match=r"(?=.*encode)(?=.*decode)(?=.*generator)"):
        door(make())


def first_logits(kind, model):
    zeros = torch.zeros(3, 1, dtype=torch.long)
    with torch.no_grad():
        return kind(model, SOURCE, 1, 5).step(zeros + 7, zeros)[..., 1:]


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("source_embedding.tokens", "max_norm", 0.5),
        ("target_embedding.tokens", "max_norm", 0.5),
        ("source_embedding", "scale", torch.full((16,), 3.0)),
    ],
)
def test_an_embedding_with_an_option_of_its_own_is_searched_with_it(path, name, value):
    def made():
        torch.manual_seed(0)  # PyTorch shortens the vectors in place: each call gets its own
        return changed(lambda m: setattr(m.get_submodule(path), name, value))

    found, expected = (first_logits(kind, made()) for kind in (steps_of, Recomputed))
    assert difference(found, expected) < 1e-10
    assert not is_plain(made())


def test_fast_steps_are_finite_in_float16_where_the_core_is():
    model = small_model().half()
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.query.weight.data = part.key.weight.data = 200 * torch.eye(16).half()
    for kind in (Recomputed, FastSteps):
        assert first_logits(kind, model).isfinite().all(), kind


def with_mask_of(dtype):
    """With an attention of a reader's, that passes a mask of this type on."""

    class Typed(MultiHeadAttention):
        def forward(self, query, *, mask=None, **_):
            q, k, v = (self.split(part(query)) for part in (self.query, self.key, self.value))
            return self.output(self.merge(attention(q, k, v, mask.to(dtype))))

    part = Typed(16, 4).double()
    return changed(lambda m: setattr(m.encoder.layers[0], "self_attention", part))


@pytest.mark.parametrize("door", [lambda m: m(SOURCE, TARGET), DOORS["greedy"]])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: with_mask_of(torch.float64), "mask: expected a boolean tensor, got torch.float"),
        (lambda: with_mask_of(torch.uint8), "mask: expected a boolean tensor, got torch.uint8"),
        (lambda: own(encode=lambda *given, **_: ENCODE(*given, **SHORT)),
         "source_mask: expected a shape that broadcasts"),
        (lambda: own(decode=lambda *given, **o: DECODE(*given, **o | {"source_mask": None})),
         "source_mask: expected a boolean tensor, got None"),
        (lambda: own(decode=lambda m, x, *given, **o: DECODE(m, x.float(), *given, **o)),
         "target: expected integers .* got torch.float32"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_readers_own_module_is_named_inside_a_model_too(make, message, door):
    with pytest.raises(ValueError, match=f"^{message}"):
        door(make())


def test_an_attention_that_ignores_the_cache_is_told_to_search_without():
    class Forgetful(MultiHeadAttention):
        def forward(self, query, **options):
            return super().forward(query, **options | {"cache": None})

    model = small_model(output_bias=True)
    model.decoder.layers[0].self_attention = Forgetful(16, 4).double()
    model.generator.bias.data[EOS] = -1e6  # it goes on
    greedy(model, SOURCE, 4, use_cache=False)
    with pytest.raises((RuntimeError, *OURS), match="use_cache=False"):
        greedy(model, SOURCE, 4)


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("target_mask", lambda m, x: m(EVEN, EVEN, target_mask=x)),
        ("source_mask", lambda m, x: m(EVEN, EVEN, source_mask=x)),
        ("source_mask", lambda m, x: m.encode(EVEN, source_mask=x)),
        ("target_mask",
         lambda m, x: m.decode(EVEN, m.encode(EVEN), source_mask=READ, target_mask=x)),
        ("mask", lambda m, x: m.encoder.layers[0].self_attention(m.encode(EVEN), mask=x)),
    ],
)  # fmt: skip
def test_a_mask_for_each_sentence_is_not_taken_for_one_of_each_head(argument, call):
    model, mask = small_model(), torch.rand(4, 1, 3, 3) < 0.6
    assert call(model, mask).shape[:2] == (4, 3)
    assert difference(call(model, mask[0]), call(model, mask[:1])) < 1e-12
    with pytest.raises(ValueError, match=rf"^{argument}: expected .*\[4, 3, 3\]"):
        call(model, mask[:, 0])


# --- Saving: the folder's old model outlives what cannot be restored ------------------------------


class Other(nn.Linear):
    def forward(self, x):
        return 3 * super().forward(x)


UNSAVEABLE = {
    "bias": lambda m: setattr(m, "generator", nn.Linear(16, len(LARGE), bias=True)),
    "subclass": lambda m: setattr(m, "generator", Other(16, len(LARGE), bias=False)),
    "hook": lambda m: m.generator.register_forward_hook(lambda _, __, x: 3 * x),
    "weight norm": lambda m: weight_norm(m.generator),
    "heads of one layer": lambda m: setattr(m.encoder.layers[0].self_attention, "n_heads", 2),
    "heads of all layers": lambda m: [
        setattr(x, "n_heads", 2) for x in m.modules() if isinstance(x, MultiHeadAttention)
    ],
    "another scale": lambda m: setattr(m.target_embedding, "scale", 1.0),
    "GELU in one layer": lambda m: setattr(m.decoder.layers[1].feed_forward, "activation", F.gelu),
    "largest norm": lambda m: setattr(m.source_embedding.tokens, "max_norm", 0.5),
    "query without bias": lambda m: setattr(m.encoder.layers[0].self_attention.query, "bias", None),
    "deleted layer": lambda m: m.decoder.layers.pop(-1),
    "shared layer": lambda m: m.encoder.layers.__setitem__(1, m.encoder.layers[0]),
    "added buffer": lambda m: m.register_buffer("extra", torch.zeros(3)),
    "tied by hand": lambda m: setattr(m.generator, "weight", m.target_embedding.tokens.weight),
    "another configuration": lambda m: setattr(m, "config", small_config(**SIZES, n_layers=3)),
    "no numbers": lambda m: m.to("meta"),
}


@pytest.mark.parametrize("change", UNSAVEABLE.values(), ids=UNSAVEABLE)
def test_what_load_could_not_restore_is_not_saved_over_what_is_there(tmp_path, change):
    made, other = untrained(), untrained()
    made.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    change(other.model)
    with pytest.raises(ValueError, match=r": expected .*, got "):
        other.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert same_tensors(*(tensors_of(m.model) for m in (Translator.load(tmp_path), made)))


def test_a_path_in_about_is_kept_as_text(tmp_path):
    untrained({"where": Path("x")}).save(tmp_path)
    assert Translator.load(tmp_path).about == {"where": "x"}


# --- Folders without end --------------------------------------------------------------------------


def rewrite(folder, tensors, **sizes):
    """Other weights, and a configuration that they belong to."""
    kept, weights = json.loads((folder / CONFIG).read_text()), weights_file(folder)
    write_tensors(weights, tensors)
    kept |= {"model": kept["model"] | sizes, "sums": {weights.name: digest(weights)}}
    (folder / CONFIG).write_text(json.dumps(kept))


def test_layers_that_the_weights_cannot_fill_are_not_built(tmp_path, monkeypatch):
    untrained().save(tmp_path)
    rewrite(tmp_path, {f"x{n}": torch.zeros(0) for n in range(500)}, n_layers=50)  # 5 a layer
    monkeypatch.setattr(Transformer, "__init__", lambda *_: pytest.fail("a model was built"))
    with pytest.raises(ValueError, match=r"expected a model's folder, got .*layers"):
        Translator.load(tmp_path)


def all_of_memory(weights):
    weights.unlink()
    weights.symlink_to("/proc/self/pagemap")  # called a regular file, of 0 bytes, and 256 GB long


def beyond_float32(weights):
    tensors = {name: tensor.double() for name, tensor in load_file(weights).items()}
    tensors["generator.weight"][1, 2] = 1e300
    rewrite(weights.parent, tensors)


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="there sparse files and /proc are")


@pytest.mark.parametrize(
    ("damage", "got"),
    [
        (lambda weights: os.truncate(weights.parent / CONFIG, 10**8), "config.json of 100,000,000"),
        (beyond_float32, ".*generator.weight"),
        pytest.param(lambda weights: os.truncate(weights, 1 << 33), "(?!None)", marks=LINUX),
        pytest.param(all_of_memory, "(?!None)", marks=LINUX),
    ],
)
def test_what_no_model_holds_is_refused_and_not_read_to_its_end(tmp_path, damage, got):
    untrained().save(tmp_path)
    damage(weights_file(tmp_path))
    with within(2), pytest.raises(ValueError, match=f"expected .*, got (a )?{got}"):
        Translator.load(tmp_path)


# --- Work is bounded by tokens --------------------------------------------------------------------


@pytest.mark.parametrize("search", ["greedy", "beam", "sample"])
def test_no_batch_has_many_rows_as_long_as_one_long_line(monkeypatch, search):
    shapes = []

    def spy(_, source, *__, **___):
        shapes.append(tuple(source.shape))
        tokens = torch.full((len(source), 1), EOS)
        return SimpleNamespace(tokens=tokens[:, None]) if search == "beam" else tokens

    monkeypatch.setattr(translator, search, spy)
    if search == "sample":
        untrained().sample(["a b c d e f a"], 10_000)
    else:
        lines = ["a b"] * 127 + ["a " * 1500]
        untrained().translate(lines, beam_size=1 if search == "greedy" else 2)
    assert sum(rows for rows, _ in shapes) == (10_000 if search == "sample" else 128)
    assert [shape for shape in shapes if shape[0] > 1 and math.prod(shape) > 1 << 14] == []


def test_a_line_far_beyond_what_a_model_was_made_for_is_refused():
    with pytest.raises(ValueError, match=r"^sentence 2: expected at most .* tokens.*, got 801; "):
        untrained(max_len=8).translate(["a", "a " * 800], max_new_tokens=1)


class Watched(TorchDispatchMode):
    """Fails before a large tensor is made: where its shape is an argument, that is known."""

    def __torch_dispatch__(self, function, types, given=(), options=None):
        for shape in given:
            if isinstance(shape, list) and all(type(n) is int for n in shape):
                assert max(math.prod(shape), *shape, 0) < 100_000, f"{function} of {shape}"
        return function(*given, **(options or {}))


@pytest.mark.parametrize("most", [100_000, 10**9])
@pytest.mark.parametrize("search", [partial(beam, beam_size=5), sample])
def test_memory_is_taken_for_what_is_written_and_not_for_the_limit(search, most):
    model = small_model(output_bias=True)
    model.generator.bias.data[EOS] = 1e6  # all end at once
    with Watched():
        search(model, SOURCE, max_new_tokens=most)


# --- Arguments in Python --------------------------------------------------------------------------

SUBWORDS = Subwords.of(["der alte hund", "the old dog"], 40)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: untrained().translate(None), "sentences"),
        (lambda: untrained().corpus([(None, "A")]), "pair|sentence|source"),
        (lambda: untrained().corpus([("a", "B", "C")]), "pair"),
        (lambda: untrained().tokens([None]), "sentence"),
        (lambda: Subwords.of([None], 40), "sentence"),
        (lambda: SMALL.decode([-1]), "numbers|tokens?"),
        (lambda: SUBWORDS.decode([-1]), "numbers|tokens?"),
        (lambda: untrained().translate(["a"], length_penalty="x"), "length_penalty"),
        (lambda: untrained().translate(["a"], length_penalty=1.0), "length_penalty"),
        (lambda: check(small_model(), tied=5, quiet=True), "tied"),
        (lambda: to_torch(SMALL), "module"),
    ],
)
def test_what_is_no_argument_is_refused_by_name(call, name):
    with pytest.raises(OURS, match=rf"^[\w ]*({name})[\w ]*: expected .*, got "):
        call()


def test_one_sentence_is_translated_to_one_and_a_generator_like_a_list():
    made = untrained()
    expected = made.translate(["a b", "c"])
    assert made.translate(text for text in ("a b", "c")) == expected
    assert made.translate("a b") == expected[0]


@pytest.mark.parametrize("name", ["loss", "step", "rate", "norm", "seconds"])
def test_what_is_watched_cannot_take_the_name_of_what_training_measures(name):
    with pytest.raises(ValueError, match=rf"watch.*: expected .*got .*{name}"):
        quiet(small(), watch=lambda *_: {name: 7.0})


def test_check_ends_whatever_it_is_given():
    with within(2), pytest.raises(ValueError, match=r"^source_vocab: expected "):
        check(small_model(), source_vocab=10**12, quiet=True)
    with within(2):
        report = check(small_model(), lambda m, *given: m(*given).to("meta"), quiet=True)
    assert report["runs"].verdict == "fault"


# --- The command line -----------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Runs a command in this process, where a model and a recipe are."""
    untrained().save(tmp_path / "model")
    (tmp_path / "tiny.toml").write_text('data = {name = "phrasebook", count = 150}')
    monkeypatch.chdir(tmp_path)

    def call(line, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["unmasked", *shlex.split(line)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status, last = 0, ""
        try:
            unmasked.cli.main()
        except SystemExit as stop:  # with a text, Python writes it and ends with 1
            status, last = (1, stop.code) if isinstance(stop.code, str) else (stop.code, "")
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err + last)

    return call


TRANSLATE = "translate --model model a"
TRAIN = "train --config tiny.toml --out run --quiet --device cpu"
OPTIONS = {  # that would do nothing, and what they need
    "--temperature 1": "--sample",
    "--top-k 5": "--sample",
    "--top-p 1": "--sample",
    "--beam 2 --seed 1": "--sample",
    "--length-penalty 1": "--beam",
    "--sample 2 --length-penalty 1": "--beam",
}
ENDLESS = ("model.n_layers", "training.accumulate", "data.count")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        *(
            (f"{TRANSLATE} {option}", [option.split()[-2], need])
            for option, need in OPTIONS.items()
        ),
        ("translate a --model ''", ["model"]),  # which is not the current folder
        ("info ''", ["model"]),
        (f"{TRAIN} --out ''", ["--out"]),
        *((f"{TRAIN} --set {key}={10**12}", [key.split(".")[1], ": expected "]) for key in ENDLESS),
        (f"{TRAIN} --config /dev/zero", ["/dev/zero", ": expected "]),  # no files: not read
        (f"{TRAIN} --config pipe", ["pipe", ": expected "]),
    ],
)
def test_a_command_is_refused_in_a_line_before_it_begins(command, monkeypatch, line, named):
    monkeypatch.setattr("unmasked.cli.train.train", lambda *_, **__: pytest.fail("it began"))
    os.mkfifo("pipe")
    if line.endswith("''") and TRAIN not in line:
        monkeypatch.chdir("model")
    if line.endswith(("zero", "pipe")):
        monkeypatch.setattr(Path, "read_text", lambda *_, **__: pytest.fail("it was read"))
    with within(2):
        found = command(line)
    assert found.status in (1, 2)
    assert "Traceback" not in found.err
    assert all(name in found.err.splitlines()[-1] for name in named)


def test_three_samples_of_each_line_are_three_lines_for_each(command):
    found = command("translate --model model --sample 3", stdin=b"a\n\nb\n")
    assert (found.status, found.out.count("\n")) == (0, 9)
    assert found.out.splitlines()[3:6] == ["", "", ""]


@pytest.mark.parametrize("option", ["", "--beam 2", "--sample 2"])
def test_a_word_cannot_command_the_terminal(command, option):
    red = Words.of(["\x1b[31mred"])
    model = Transformer(small_config(source_vocab=9, target_vocab=len(red), output_bias=True))
    model.generator.bias.data[3] = 1e3  # it writes nothing else
    Translator(model, SMALL, red).save("model")
    found = command(f"{TRANSLATE} {option}")
    assert found.status == 0
    assert "red" in found.out
    assert "\x1b" not in found.out


def test_a_command_answers_by_the_name_that_it_was_called_by(command):
    assert command("translate --bogus").err.startswith("usage: unmasked translate ")


def test_what_went_wrong_can_be_seen_with_its_traceback(command, monkeypatch):
    def fail(*_, **__):
        raise ValueError("a mistake of ours")

    monkeypatch.setattr("unmasked.cli.translate.load", fail)
    assert command(TRANSLATE).status == 1
    with pytest.raises(ValueError, match="a mistake of ours"):
        command(f"{TRANSLATE} --debug")
