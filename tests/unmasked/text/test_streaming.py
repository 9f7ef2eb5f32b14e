"""A corpus that is read as it goes: the same batches, wherever one begins, and little in memory."""

from itertools import islice

import pytest
import torch

from helpers import same_tensors
from helpers.small_training import RECIPE, quiet, small
from unmasked.storage.files import tensors_of
from unmasked.text.corpus import Corpus, Cursor
from unmasked.text.streaming import StreamedCorpus, lines
from unmasked.tokens import BOS, EOS, Words
from unmasked.training.trainer import Trainer

TEXTS = [" ".join("abcdefghijk"[i % 5 : i % 5 + 1 + i % 7]) for i in range(40)]
PAIRS = [(text, text[::-1]) for text in TEXTS]
ENGLISH = Words.of(TEXTS)


def streamed(pairs=PAIRS, buffer=1000):
    return StreamedCorpus(lambda: iter(pairs), ENGLISH, ENGLISH, buffer=buffer)


def in_memory(pairs=PAIRS):
    source = [[*ENGLISH.encode(a), EOS] for a, _ in pairs]
    return Corpus(source, [[BOS, *ENGLISH.encode(b), EOS] for _, b in pairs])


def some(corpus, count, *, seed=0, start=Cursor()):  # noqa: B008
    stream = corpus.stream(60, seed, start)
    return [(corpus.batch(batch), place) for batch, place in islice(stream, count)]


def same(ones, others):
    return all(
        place == other and all(map(torch.equal, batch, another))
        for (batch, place), (another, other) in zip(ones, others, strict=True)
    )


def test_with_room_for_all_it_is_the_corpus_itself():
    """Over several passes, batch by batch and place by place."""
    count = 3 * len(in_memory().epoch(0, 60, seed=5))
    assert same(some(streamed(), count, seed=5), some(in_memory(), count, seed=5))
    numbers = list(range(len(PAIRS)))
    [everything] = streamed().buffers()
    for back in (False, True):
        assert streamed().labels(everything, back) == in_memory().labels(numbers, back)
        batches = streamed().batch(everything, back), in_memory().batch(numbers, back)
        assert all(map(torch.equal, *batches))


def test_the_order_follows_from_the_seed_and_changes_from_pass_to_pass():
    one, other = some(streamed(buffer=15), 30), some(streamed(buffer=15), 30)
    assert same(one, other)
    assert not same(one, some(streamed(buffer=15), 30, seed=1))
    first, second = (
        [str(pair) for batch in streamed().epoch(epoch, 60, 0) for pair in batch]
        for epoch in (0, 1)
    )
    assert sorted(first) == sorted(second)
    assert first != second


def test_each_pair_comes_once_a_pass_whatever_the_buffer():
    for buffer in (1, 7, 40, 1000):
        found = [pair for batch in streamed(buffer=buffer).epoch(0, 60, 0) for pair in batch]
        assert sorted(map(str, found)) == sorted(map(str, next(streamed().buffers())))


@pytest.mark.parametrize("done", [0, 1, 4, 11, 13, 14])
def test_it_goes_on_from_a_place(done):
    """Also from the end of a pass, and from one that is not the first."""
    through = some(streamed(buffer=15), 30)
    start = through[done - 1][1] if done else Cursor()
    assert same(some(streamed(buffer=15), 30 - done, start=start), through[done:])


def test_no_more_than_a_buffer_is_read_ahead():
    read = given = ahead = 0

    def counting():
        nonlocal read
        for number in range(10_000):
            read += 1
            yield TEXTS[number % 40], TEXTS[number % 40]

    corpus = StreamedCorpus(counting, ENGLISH, ENGLISH, buffer=50)
    for batch, _ in islice(corpus.stream(60, 0), 300):
        ahead = max(ahead, read - given)
        given += len(batch)
    assert 1000 < given <= read <= given + 50
    assert ahead <= 50


def test_training_from_a_stream_is_training_from_memory():
    models = [small(source_vocab=len(ENGLISH), target_vocab=len(ENGLISH)) for _ in range(2)]
    histories = [
        quiet(model, corpus=corpus)
        for model, corpus in zip(models, (streamed(), in_memory()), strict=True)
    ]
    assert histories[0]["loss"] == histories[1]["loss"]
    assert same_tensors(*map(tensors_of, models))


def test_killed_and_resumed_it_ends_with_the_same_weights(tmp_path, monkeypatch):
    def model():
        return small(source_vocab=len(ENGLISH), target_vocab=len(ENGLISH))

    through, resumed = model(), model()
    quiet(through, corpus=streamed(buffer=15))
    options = {"corpus": streamed(buffer=15), "folder": tmp_path, "checkpoint_every": 5}
    advance = Trainer.advance

    def until_8(trainer):
        if trainer.step == 8:
            raise KeyboardInterrupt
        advance(trainer)

    monkeypatch.setattr(Trainer, "advance", until_8)
    with pytest.raises(KeyboardInterrupt):
        quiet(model(), **options)
    monkeypatch.undo()
    quiet(resumed, **options, resume=True)
    assert same_tensors(tensors_of(resumed), tensors_of(through))
    with pytest.raises(ValueError, match="resume: expected data="):
        quiet(model(), **{**options, "corpus": streamed(buffer=16)}, resume=True)


def test_other_sentences_or_another_buffer_have_another_fingerprint():
    prints = {
        corpus.fingerprint()
        for corpus in (
            streamed(), streamed(PAIRS[1:]), streamed(buffer=15), streamed([]), streamed()
        )
    }  # fmt: skip
    assert len(prints) == 4


def test_two_files_line_by_line(tmp_path):
    for name, texts in (("a", ["eins", "", "drei"]), ("b", ["one", "", "three"])):
        (tmp_path / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    assert list(lines(tmp_path / "a", tmp_path / "b")) == [
        ("eins", "one"), ("", ""), ("drei", "three"),
    ]  # fmt: skip
    (tmp_path / "short").write_text("one\n", encoding="utf-8")
    for pair in (("short", "b"), ("b", "short")):
        with pytest.raises(ValueError, match="short: expected a line 2, got its end; each line"):
            list(lines(*(tmp_path / name for name in pair)))


def test_a_carriage_return_within_a_line_ends_no_line(tmp_path):
    (tmp_path / "a").write_bytes(b"eins\rzwei\r\ndrei\n")
    (tmp_path / "b").write_bytes(b"one two\nthree\n")
    found = list(lines(tmp_path / "a", tmp_path / "b"))
    assert found == [("eins\rzwei", "one two"), ("drei", "three")]


def test_a_stream_of_nothing_and_a_buffer_of_nothing_are_refused():
    with pytest.raises(ValueError, match="read: expected at least one pair of sentences, got none"):
        next(streamed([]).stream(60, 0))
    used = iter(PAIRS)
    once = StreamedCorpus(lambda: used, ENGLISH, ENGLISH)
    with pytest.raises(ValueError, match="it is called once a pass, and begins anew each time"):
        list(islice(once.stream(60, 0), 1000))
    with pytest.raises(ValueError, match="buffer: expected a whole number of at least 1, got 0"):
        streamed(buffer=0)


def test_the_recipe_of_these_tests_takes_more_than_one_pass():
    assert RECIPE.steps > len(in_memory().epoch(0, RECIPE.tokens, 0))
