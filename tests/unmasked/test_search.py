"""Search finds what it should: cached like uncached, and a wide beam like trying everything."""

import itertools
import math
import re
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from helpers import (
    DEVICES,
    MODELS,
    VOCABULARY,
    as_target,
    copier,
    difference,
    ragged,
    small_model,
)
from unmasked import search, transformer
from unmasked.fast.steps import FastSteps
from unmasked.masks import padding_mask
from unmasked.search import (
    EXTRA_LENGTH,
    Cached,
    Recomputed,
    beam,
    draw,
    greedy,
    sample,
    steps_of,
    top_k,
    without_padding,
    written_maps,
)
from unmasked.tokens import BOS, EOS, PADDING
from unmasked.transformer import evaluating

LENGTHS = [7, 4, 1, 6, 2]


def untrained(preset=None, seed=0, **changes):
    """A model whose greedy output is a surprise, and never ends."""
    torch.manual_seed(seed)
    return small_model(preset, embedding_std=1.0, output_bias=True, **changes)


def copier_and_source():
    torch.manual_seed(1)
    return copier(), ragged(LENGTHS, 12)


def log_probability(model, source, sentence):
    """Of one whole sentence (its EOS included), without any search."""
    target = torch.tensor([[BOS, *sentence]])
    logits = model(source, target[:, :-1])
    logits[..., PADDING] = -torch.inf
    return float(logits.log_softmax(-1)[0].gather(-1, target[0, 1:, None]).sum().detach())


def strip(tokens):
    """Rows of tokens without their padding."""
    return [[token for token in row if token != PADDING] for row in tokens.tolist()]


@pytest.mark.parametrize("preset", MODELS)
@pytest.mark.parametrize("drop_finished", [True, False])
def test_greedy_takes_the_likeliest_token_each_time(preset, drop_finished):
    model, source = untrained(preset), ragged(LENGTHS)
    found = strip(greedy(model, source, 12, drop_finished=drop_finished))
    for row, sentence in zip(source, found, strict=True):
        only = row[row != 0][None]
        for time, token in enumerate(sentence):
            logits = model(only, torch.tensor([[BOS, *sentence[:time]]]))[0, -1]
            logits[PADDING] = -torch.inf
            assert int(logits.argmax()) == token
        assert len(sentence) == 12 or sentence[-1] == EOS
        assert EOS not in sentence[:-1]


def assert_cached_equals_uncached(model, source):
    slow = greedy(model, source, use_cache=False)
    assert torch.equal(greedy(model, source), slow)
    assert torch.equal(greedy(model, source, drop_finished=False), slow)
    fast = beam(model, source, 4, n_best=3)
    slow = beam(model, source, 4, n_best=3, use_cache=False)
    assert torch.equal(fast.tokens, slow.tokens)
    assert difference(fast.scores, slow.scores) < 1e-5


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("preset", MODELS)
def test_cached_equals_uncached_to_the_last_token(preset, device):
    for seed in range(3):
        model, source = untrained(preset, seed).to(device), ragged(LENGTHS).to(device)
        assert_cached_equals_uncached(model, source)


@pytest.mark.parametrize("device", DEVICES)
def test_cached_equals_uncached_when_sentences_end(device):
    model, _ = copier_and_source()
    source = ragged(torch.randint(1, 8, (20,)).tolist(), 12)
    assert_cached_equals_uncached(model.to(device), source.to(device))
    model.cpu()


def test_a_model_that_learned_to_copy_copies():
    model, _ = copier_and_source()
    source = ragged(torch.randint(1, 7, (50,)).tolist(), 12)
    expected = strip(as_target(source)[:, 1:])
    for found in (strip(greedy(model, source)), strip(beam(model, source, 4).tokens[:, 0])):
        assert sum(a == b for a, b in zip(found, expected, strict=True)) >= 40


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 2.0])
def test_a_beam_that_keeps_every_beginning_finds_the_best_of_all_sentences(length_penalty):
    """Three words, three steps: nine beginnings fit into a beam of twelve."""
    model = untrained(target_vocab=12)
    with torch.no_grad():
        model.generator.bias[5:] = -1e9
    source, limit, words = ragged([4, 2]), 3, [1, 3, 4]
    found = beam(model, source, 12, limit, n_best=12, length_penalty=length_penalty)
    for row, tokens, scores in zip(source, found.tokens, found.scores, strict=True):
        every = []
        for length in range(1, limit + 1):
            for beginning in itertools.product(words, repeat=length - 1):
                for end in [EOS] if length < limit else [EOS, *words]:
                    sentence = [*beginning, end]
                    score = log_probability(model, row[row != 0][None], sentence)
                    every.append((score / ((5 + length) / 6) ** length_penalty, sentence))
        every.sort(reverse=True)
        assert strip(tokens) == [sentence for _, sentence in every[:12]]
        assert scores.tolist() == pytest.approx([score for score, _ in every[:12]], rel=1e-4)


@pytest.mark.parametrize("preset", [None, "source_reading"])
def test_scores_are_the_log_probabilities_of_the_sentences(preset):
    model, source = untrained(preset), ragged(LENGTHS)
    result = beam(model, source, 4, 9, n_best=4, length_penalty=0.6)
    assert (result.scores.diff(dim=1) <= 0).all()
    for row, tokens, scores in zip(source, result.tokens, result.scores, strict=True):
        sentences = strip(tokens)
        assert len({tuple(sentence) for sentence in sentences}) == 4
        for sentence, score in zip(sentences, scores.tolist(), strict=True):
            penalty = ((5 + len(sentence)) / 6) ** 0.6
            expected = log_probability(model, row[row != 0][None], sentence) / penalty
            assert score == pytest.approx(expected, rel=1e-4)


def test_a_beam_of_one_is_greedy():
    for model, source in (copier_and_source(), (untrained(), ragged(LENGTHS))):
        assert torch.equal(beam(model, source, 1, 9).tokens[:, 0], greedy(model, source, 9))


def test_a_wider_beam_never_scores_lower_here():
    model, source = untrained(), ragged(LENGTHS)
    narrow, wide = (beam(model, source, size, 9).scores for size in (1, 8))
    assert (wide >= narrow - 1e-6).all()


def test_a_sentence_is_translated_alike_alone_and_in_a_batch():
    model, source = copier_and_source()
    together = beam(model, source, 3, 9)
    for row, tokens, score in zip(source, together.tokens, together.scores, strict=True):
        alone = beam(model, row[row != 0][None], 3, 9)
        assert strip(alone.tokens[0]) == strip(tokens)
        assert difference(alone.scores[0], score) < 1e-5


def test_where_fewer_hypotheses_exist_the_rest_is_empty():
    model = untrained(target_vocab=4)
    with torch.no_grad():
        model.generator.bias[EOS] = 1e6  # nothing else is ever possible
    result = beam(model, ragged([3]), 4, 1, n_best=4)
    assert strip(result.tokens[0])[:1] == [[EOS]]
    assert result.scores[0, 3] == -torch.inf
    assert strip(result.tokens[0])[3] == []


def test_finished_sentences_leave_the_batch(monkeypatch):
    model, source = copier_and_source()
    sizes = []
    step = FastSteps.step

    def counted(self, tokens, parents):
        sizes.append(len(tokens))
        return step(self, tokens, parents)

    monkeypatch.setattr(FastSteps, "step", counted)
    greedy(model, source, 40, drop_finished=False)
    assert set(sizes) == {5}
    sizes.clear()
    greedy(model, source, 40)
    assert sizes[0] == 5 > sizes[-1]
    assert sizes == sorted(sizes, reverse=True)
    sizes.clear()
    beam(model, source, 4, 40)
    assert sizes[0] == 5 > sizes[-1]
    assert len(sizes) < 40


@pytest.mark.parametrize("width", [1, 3])
def test_maps_are_those_of_what_was_written(width):
    model, source = untrained(dropout=0.5), ragged(LENGTHS)
    tokens = greedy(model, source, 9) if width == 1 else beam(model, source, 3, 9).tokens[:, 0]
    _, expected = model(
        source, torch.cat([torch.full((5, 1), BOS), tokens[:, :-1]], dim=1), need_weights=True
    )
    maps = written_maps(model.train(), source, tokens)
    assert model.training
    for ours, theirs in zip(maps, expected, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert difference(a, b) < 1e-12
    assert maps.cross[0].shape == (5, 4, tokens.shape[1], 7)
    other = written_maps(model, source, tokens, bos=5)
    assert difference(other.cross[0], maps.cross[0]) > 1e-3


def test_the_default_limit_is_the_papers():
    model = untrained()
    with torch.no_grad():
        model.generator.bias[EOS] = -1e6
    assert greedy(model, ragged([3])).shape == (1, 3 + EXTRA_LENGTH)
    learned = untrained(positions="learned", max_len=11)
    with torch.no_grad():
        learned.generator.bias[EOS] = -1e6
    assert greedy(learned, ragged([3])).shape == (1, 11)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("drop", [True, False])
def test_the_limit_of_a_sentence_does_not_depend_on_its_neighbours(width, drop):
    """Of a model that never ends; the batch's padding counts for nobody either."""
    model = untrained()
    with torch.no_grad():
        model.generator.bias[EOS] = -1e6

    def found(source):
        if width == 1:
            return strip(greedy(model, source, drop_finished=drop))
        return strip(beam(model, source, width, n_best=2, use_cache=drop).tokens.flatten(0, 1))

    source = ragged(LENGTHS)
    together = found(F.pad(source, (0, 3)))
    assert together == [written for row in source for written in found(row[row != PADDING][None])]
    assert [len(w) for w in together[:: min(width, 2)]] == [n + EXTRA_LENGTH for n in LENGTHS]


def test_results_can_be_used_in_training_afterwards():
    model, source = untrained(), ragged(LENGTHS)
    for tokens in (greedy(model, source, 5), beam(model, source, 2, 5).tokens[:, 0]):
        model.zero_grad()
        model(source, tokens).square().sum().backward()
        assert model.generator.weight.grad.abs().max() > 0


def test_the_model_is_left_as_it_was():
    model = untrained(dropout=0.5)
    model.train()
    model.encoder.eval()
    source = ragged(LENGTHS)
    assert torch.equal(greedy(model, source, 5), greedy(model, source, 5))
    assert model.training
    assert model.decoder.layers[0].training
    assert not model.encoder.training
    weights = model.generator.weight
    assert weights.is_contiguous()
    assert weights.requires_grad


def test_other_begin_and_end_tokens():
    model, source = copier_and_source()
    row = next(i for i, words in enumerate(source.tolist()) if words[2] not in words[:2])
    found = strip(greedy(model, source, eos=int(source[row, 2])))
    assert found[row] == source[row, :3].tolist()
    begun = greedy(model, source, 5, bos=5)
    logits = model(source, torch.full((5, 1), 5))[:, 0]
    assert torch.equal(begun[:, 0], logits[:, 1:].argmax(-1) + 1)


@given(
    rows=st.integers(1, 3),
    length=st.integers(10, 3000),
    k=st.integers(1, 10),
    block=st.sampled_from([4, 32]),
)
def test_top_k_by_blocks_is_top_k(rows, length, k, block):
    x = torch.randn(rows, length)
    values, indices = top_k(x, k, block)
    assert torch.equal(values, x.topk(k).values)
    assert torch.equal(x.gather(-1, indices), values)


def test_the_last_block_of_top_k_may_hold_nothing_but_negative_numbers():
    """It is filled up with minus infinity: anything else could be among the best."""
    x = -torch.arange(1.0, 131.0)[None].flip(-1)  # 130 numbers, -130 to -1: the best come last
    values, indices = top_k(x, 3, block=4)
    assert values.tolist() == [[-1.0, -2.0, -3.0]]
    assert indices.tolist() == [[129, 128, 127]]
    for length in range(16, 32):  # with every length of the last block
        x = -1.0 - torch.rand(5, length)
        values, indices = top_k(x, 1, block=4)
        assert torch.equal(values, x.topk(1).values)
        assert torch.equal(indices, x.topk(1).indices)


def test_padding_cannot_win():
    logits = without_padding(torch.tensor([[9.0, 1.0, 2.0]]))
    assert logits.tolist() == [[-math.inf, 1.0, 2.0]]
    model, source = untrained(), ragged(LENGTHS)
    with torch.no_grad():
        model.generator.bias[PADDING] = 1e6
    for use_cache in (True, False):
        assert len(strip(greedy(model, source, 9, use_cache=use_cache))[0]) == 9
        assert len(strip(beam(model, source, 3, 9, use_cache=use_cache).tokens[0])[0]) == 9


@pytest.mark.parametrize("preset", MODELS)
@pytest.mark.parametrize("width", [1, 3])
def test_all_kinds_of_steps_give_the_same_logits(preset, width):
    """Whoever descends from whom, and whoever leaves."""
    model, source = untrained(preset), ragged(LENGTHS)
    kinds = [kind(model, source, width, 4) for kind in (FastSteps, Cached, Recomputed)]
    rows = len(source)
    with torch.no_grad():
        for time in range(4):
            tokens = torch.randint(3, VOCABULARY, (rows, width))
            parents = torch.randint(width, (rows, width))
            parents = parents if time else torch.zeros_like(parents)
            found = [steps.step(tokens, parents) for steps in kinds]
            assert all((logits[..., PADDING] == -torch.inf).all() for logits in found)
            fast, cached, slow = (logits[..., 1:] for logits in found)
            assert slow.shape == (rows, width, VOCABULARY - 1)
            assert difference(fast, slow) < 1e-12
            assert difference(cached, slow) < 1e-12
            if time == 1:
                going = torch.tensor([True, False, True, True, False])
                rows = int(going.sum())
                for steps in kinds:
                    steps.keep(going)


def test_the_fast_steps_are_taken_where_they_may_be():
    model, source = untrained(), ragged(LENGTHS)
    assert type(steps_of(model, source, 2, 5)) is FastSteps
    assert type(steps_of(model, source, 2, 5, use_cache=False)) is Recomputed
    handle = model.decoder.register_forward_hook(lambda *_: None)
    assert type(steps_of(model, source, 2, 5)) is Cached
    handle.remove()
    assert type(steps_of(model, source, 2, 5)) is FastSteps
    source[1] = PADDING
    assert type(steps_of(model, source, 2, 5)) is Cached


def test_hooks_are_heard_while_searching():
    model, source = copier_and_source()
    expected, heard = greedy(model, source), []
    layer = model.decoder.layers[0].feed_forward
    handle = layer.register_forward_hook(lambda *_: heard.append(1))
    assert torch.equal(greedy(model, source), expected)
    handle.remove()
    assert len(heard) == expected.shape[1]


def test_parts_of_another_making_are_used_as_they_are():
    model, source = untrained(), ragged(LENGTHS)

    class Louder(nn.Linear):
        def forward(self, x):
            return 3 * super().forward(x)

    louder = Louder(16, 16).double()
    model.decoder.layers[1].self_attention.output = louder
    assert torch.equal(greedy(model, source, 9), greedy(model, source, 9, use_cache=False))


def test_a_sentence_of_nothing_but_padding_is_searched_like_any_other():
    model, source = untrained(), ragged(LENGTHS)
    source[1] = 0
    assert_cached_equals_uncached(model, source)


@pytest.mark.parametrize("use_cache", [True, False])
def test_tokens_of_32_bits_do(use_cache):
    model, source = copier_and_source()
    expected = greedy(model, source)
    assert torch.equal(greedy(model, source.int(), use_cache=use_cache), expected)
    tokens = beam(model, source.int(), 3, use_cache=use_cache).tokens
    assert torch.equal(tokens, beam(model, source, 3).tokens)


def plain_beam(model, source, width, limit, n_best, length_penalty):
    """Beam search as one would write it down: lists, one sentence, no stopping early."""
    memory, alive, finished = model.encode(source), [(0.0, ())], []
    for time in range(1, limit + 1):
        target = torch.tensor([[BOS, *sentence] for _, sentence in alive])
        every = memory.expand(len(alive), -1, -1)
        x = model.decode(target, every, source_mask=padding_mask(source))
        logits = model.generator(x[:, -1])
        logits[:, PADDING] = -torch.inf
        scores = logits.log_softmax(-1)
        candidates = sorted(
            (
                (total + float(scores[i, token]), (*sentence, token))
                for i, (total, sentence) in enumerate(alive)
                for token in range(1, scores.shape[1])
            ),
            key=lambda candidate: -candidate[0],
        )[: 2 * width]
        for total, sentence in candidates[:width]:
            if sentence[-1] == EOS or time == limit:
                finished.append((total / ((5 + time) / 6) ** length_penalty, sentence))
        alive = [(t, sentence) for t, sentence in candidates if sentence[-1] != EOS][:width]
        if not alive:
            break
    return sorted(finished, key=lambda hypothesis: -hypothesis[0])[:n_best]


def search_table(monkeypatch, table, **options):
    """Beam search over a table of probabilities, last token → next token."""

    class Table:
        def __init__(self, *_, use_cache):
            assert use_cache

        def step(self, tokens, _):
            probabilities = torch.zeros(1, tokens.shape[1], VOCABULARY)
            for column, token in enumerate(tokens[0].tolist()):
                for word, probability in table.get(token, {EOS: 1.0}).items():
                    probabilities[0, column, word] = probability
            return probabilities.log()

        def keep(self, rows):
            pass

    monkeypatch.setattr(search, "steps_of", Table)
    found = beam(small_model(), ragged([3]), max_new_tokens=10, **options)
    return strip(found.tokens[0]), found.scores[0]


LOOP = {5: {5: 1.0}, 6: {6: 1.0}}  # a word that repeats itself for ever


def test_it_does_not_stop_while_length_could_still_pay(monkeypatch):
    """At first the end is far ahead; ten words later the penalty has turned it round."""
    table = {BOS: {EOS: 0.9, 5: 0.1}, **LOOP}
    sentences, scores = search_table(monkeypatch, table, beam_size=2, length_penalty=5.0)
    assert sentences == [[5] * 10]
    assert scores[0] == pytest.approx(math.log(0.1) / (15 / 6) ** 5, rel=1e-5)
    assert search_table(monkeypatch, table, beam_size=2, length_penalty=0.0)[0] == [[EOS]]


def test_hypotheses_that_end_make_room_for_others(monkeypatch):
    """Both of the best two end in the second step; the beam goes on with the third and fourth."""
    table = {BOS: {3: 0.6, 4: 0.4}, 3: {EOS: 0.9, 5: 0.1}, 4: {EOS: 0.9, 6: 0.1}, **LOOP}
    found, _ = search_table(monkeypatch, table, beam_size=2, n_best=2, length_penalty=5.0)
    assert found == [[3] + [5] * 9, [4] + [6] * 9]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    vocabulary=st.sampled_from([3, 4, 5, 9, 23]),
    width=st.integers(1, 6),
    limit=st.integers(1, 8),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 5.0]),
    end=st.sampled_from([-1.0, 0.0, 2.0, 4.0]),
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3),
)
def test_beam_equals_the_plain_one(seed, vocabulary, width, limit, length_penalty, end, lengths):
    width = min(width, vocabulary)
    n_best = 1 + seed % width
    model = untrained(seed=seed, target_vocab=vocabulary, n_layers=1)
    with torch.no_grad():
        model.generator.bias[EOS] += end
        source = ragged(lengths)
        found = beam(model, source, width, limit, n_best=n_best, length_penalty=length_penalty)
        for row, tokens, scores in zip(source, found.tokens, found.scores, strict=True):
            only = row[row != 0][None]
            expected = plain_beam(model, only, width, limit, n_best, length_penalty)
            real = scores.isfinite()
            assert int(real.sum()) == len(expected)
            assert scores[real].tolist() == pytest.approx([s for s, _ in expected], abs=1e-4)
            gaps = [a[0] - b[0] for a, b in itertools.pairwise(expected)]
            if min(gaps, default=1.0) > 1e-4:  # no ties
                assert strip(tokens[real]) == [list(sentence) for _, sentence in expected]


# --- Sampling ---------------------------------------------------------------------------------


def frequencies(logits, options, draws=100_000):
    chances = torch.rand(draws, generator=torch.Generator().manual_seed(0))
    tokens = draw(logits.expand(draws, -1), chances, **options)
    return tokens.bincount(minlength=len(logits)) / draws


LOGITS = torch.tensor([0.5, -1.0, 2.0, -math.inf, 1.5, 0.0, -3.0])


def expected(kept):
    """The probabilities of these tokens alone."""
    chances = LOGITS.softmax(-1)
    left_out = [token for token in range(len(LOGITS)) if token not in kept]
    chances[left_out] = 0.0
    return chances / chances.sum()


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, range(7)),
        ({"top_k": 3}, (2, 4, 0)),
        ({"top_k": 99}, range(7)),
        ({"top_p": 0.7}, (2, 4)),  # 0.50, 0.30, 0.11, ...
        ({"top_p": 0.85}, (2, 4, 0)),
        ({"top_p": 1e-6}, (2,)),
        ({"top_k": 2, "top_p": 0.9}, (2, 4)),  # of these two 0.62 and 0.38
        ({"top_k": 2, "top_p": 0.6}, (2,)),
    ],
)
def test_tokens_are_drawn_as_often_as_their_probabilities_say(options, kept):
    found = frequencies(LOGITS, options)
    assert (found - expected(kept)).abs().max() < 0.005
    assert found[3] == 0


def test_the_largest_chance_draws_a_token_that_can_be_drawn():
    almost_one = torch.tensor([1 - 2**-24, 0.0])
    logits = torch.full((2, 5000), -torch.inf).index_fill(1, torch.arange(3000), 0.0)
    assert draw(logits, almost_one).max() < 3000
    assert draw(logits, almost_one, top_k=7).max() < 7  # ties: the first ones


def test_sentences_are_drawn_as_often_as_the_model_says():
    model, source = untrained(), ragged([4])
    model.generator.bias.data[EOS] += 5
    found = sample(model, source.expand(4000, -1), 2, temperature=2.0, seed=0)
    chances = {}
    first = without_padding(model(source, torch.tensor([[BOS]]))[0, -1] / 2).softmax(-1)
    for a, chance in enumerate(first.tolist()):
        after = without_padding(model(source, torch.tensor([[BOS, a]]))[0, -1] / 2).softmax(-1)
        chances |= {(a, b): chance * p for b, p in enumerate(after.tolist()) if a != EOS}
    chances[EOS, PADDING] = first[EOS].item()
    pairs = [tuple(row) for row in found.tolist()]
    likely = sorted(chances, key=chances.get, reverse=True)[:20]
    for pair in likely:
        deviation = math.sqrt(chances[pair] * (1 - chances[pair]) / 4000)
        assert abs(pairs.count(pair) / 4000 - chances[pair]) < 5 * deviation


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("preset", MODELS)
def test_the_same_seed_draws_the_same_with_and_without_the_cache(preset, device):
    model, source = untrained(preset).to(device), ragged(LENGTHS).to(device)
    source = source.repeat_interleave(3, dim=0)
    options = {"temperature": 1.5, "top_k": 9}
    once = sample(model, source, 8, **options, seed=0)
    again = sample(model, source, 8, **options, seed=0, use_cache=False)
    assert once.shape == (15, 8)
    assert torch.equal(once, again)
    assert not torch.equal(once, sample(model, source, 8, **options, seed=1))


def test_what_is_drawn_does_not_depend_on_who_has_finished(monkeypatch):
    model, source = copier_and_source()
    source = source.repeat_interleave(6, dim=0)
    dropping = sample(model, source, 12, temperature=3.0, seed=0)
    monkeypatch.setattr(search, "worth_dropping", lambda *_: False)
    keeping = sample(model, source, 12, temperature=3.0, seed=0)
    assert torch.equal(dropping, keeping)
    lengths = {len(row) for row in strip(dropping)}
    assert len(lengths) > 3  # they end at different times


def test_without_a_seed_the_numbers_are_pytorchs():
    model, source = untrained(), ragged(LENGTHS)
    torch.manual_seed(5)
    first = sample(model, source, 6)
    second = sample(model, source, 6)
    torch.manual_seed(5)
    assert torch.equal(first, sample(model, source, 6))
    assert not torch.equal(first, second)


def test_a_generator_continues_where_it_is():
    model, source = untrained(), ragged(LENGTHS)
    drawn_by = torch.Generator().manual_seed(0)
    first = sample(model, source, 6, seed=drawn_by)
    assert torch.equal(first, sample(model, source, 6, seed=0))
    assert not torch.equal(first, sample(model, source, 6, seed=drawn_by))


def test_a_seed_may_be_numpys():
    model, source = untrained(), ragged(LENGTHS)
    found = [sample(model, source, 6, seed=seed) for seed in (3, np.int64(3), np.uint8(3))]
    assert all(torch.equal(each, found[0]) for each in found)


def test_rows_of_one_sentence_are_drawn_independently():
    model, source = untrained(), ragged([4]).expand(8, -1)
    assert len(set(map(tuple, sample(model, source, 6, seed=0).tolist()))) == 8


def test_a_low_temperature_or_one_token_is_greedy_search():
    model, source = untrained(), ragged(LENGTHS)
    wanted = greedy(model, source, 6)
    for options in ({"temperature": 1e-3}, {"top_k": 1}, {"top_p": 1e-6}):
        assert torch.equal(sample(model, source, 6, **options), wanted)


def test_samples_keep_to_the_limit_of_their_sentence_and_never_hold_padding():
    model, source = untrained(), ragged(LENGTHS)
    with torch.no_grad():
        model.generator.bias[EOS] = -1e6
        model.generator.bias[PADDING] = 1e6
    assert [len(row) for row in strip(sample(model, source))] == [n + EXTRA_LENGTH for n in LENGTHS]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed: expected a whole number of at least 0, got -1"),
        ({"seed": 0.5}, "seed: expected a whole number of at least 0, got 0.5"),
        ({"seed": 2**32}, "seed: expected at most 4,294,967,295, got 4294967296; choose a smaller"),
        ({"temperature": 0.0}, "temperature: expected a number from 0.001 to 1000, got 0.0; as"),
        ({"top_k": 0}, "top_k: expected a whole number of at least 1, got 0"),
        ({"top_p": 0.0}, "top_p: expected a number from 1e-09 to 1, got 0.0"),
        ({"top_p": 1.5}, "top_p: expected a number from 1e-09 to 1, got 1.5"),
        ({"max_new_tokens": 0}, "max_new_tokens: expected a whole number of at least 1"),
    ],
)
def test_what_cannot_be_drawn_from_is_refused(options, message):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        sample(untrained(), ragged(LENGTHS), **options)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [1, 3])
def test_the_likeliest_of_many_is_the_first_of_the_highest(rows, device, kind):
    x = torch.randint(0, 30, (rows, 2, 640)).to(device, kind)
    highest = (x == x.amax(-1, keepdim=True)).int().argmax(-1)
    assert torch.equal(search.likeliest_of(x), highest)


def test_threads_that_use_a_model_in_training_mode_do_not_disturb_each_other():
    """The first to leave must not switch dropout on under the others."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).train()
    inside, leave, seen = threading.Barrier(3), threading.Event(), []

    def long():
        with evaluating(model):
            inside.wait()
            leave.wait(60)
            seen.append(any(module.training for module in model.modules()))

    def short():
        with evaluating(model):
            inside.wait()

    threads = [threading.Thread(target=work) for work in (long, short)]
    for thread in threads:
        thread.start()
    inside.wait()
    threads[1].join()
    leave.set()
    threads[0].join()
    assert seen == [False]
    assert all(module.training for module in model.modules())
    assert model not in transformer.EVALUATED


def test_what_is_frozen_in_evaluation_mode_stays_there():
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5)).train()
    model[1].eval()
    with evaluating(model), evaluating(model):
        assert not model[0].training
    assert [part.training for part in model] == [True, False]


def test_an_interruption_on_the_way_in_leaves_nothing_behind(monkeypatch):
    model = nn.Sequential(nn.Dropout(0.5)).train()

    def interrupted(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(nn.Sequential, "eval", interrupted)
        with pytest.raises(KeyboardInterrupt), evaluating(model):
            pass
    assert model not in transformer.EVALUATED
    with evaluating(model):
        assert not model[0].training
    assert model[0].training
