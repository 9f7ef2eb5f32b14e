"""Search finds what it should: cached like uncached, and a wide beam like trying everything."""

import itertools
import math
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from helpers import DEVICES, MODELS, copier, difference, ragged, small_model
from unmasked import MultiHeadAttention, search
from unmasked.masks import padding_mask
from unmasked.search import Steps, beam, draw, greedy, sample, top_k, without_padding
from unmasked.tokens import BOS, EOS, PADDING

LENGTHS = [7, 4, 1, 6, 2]
NEVER = {EOS: -1e6}  # ends a sentence


def untrained(preset=None, seed=0, bias=None, **changes):
    """A model whose greedy output is a surprise, and seldom ends; `bias` for some tokens."""
    torch.manual_seed(seed)
    model = small_model(preset, embedding_std=1.0, output_bias=True, **changes)
    for token, number in (bias or {}).items():
        model.generator.bias.data[token] = number
    return model


def strip(tokens):
    """Rows of tokens without their padding."""
    return [[token for token in row if token != PADDING] for row in tokens.tolist()]


# --- The same by every way --------------------------------------------------------------------

MADE = {
    **{name: lambda name=name: (untrained(name), ragged(LENGTHS)) for name in MODELS},
    "sentences that end": lambda: (copier(), ragged(torch.randint(1, 8, (20,)).tolist(), 12)),
    "tokens of 32 bits": lambda: (copier(), ragged(LENGTHS, 12).int()),
    "a sentence of nothing but padding": lambda: (untrained(), ragged([7, 0, 1, 6, 2])),
    "positions beyond the table": lambda: (untrained(max_len=7, bias=NEVER), ragged(LENGTHS)),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_cached_equals_uncached_to_the_last_token(make, device):
    model, source = make()
    model, source = model.to(device), source.to(device)
    slow = greedy(model, source, 20, use_cache=False)
    assert torch.equal(greedy(model, source, 20), slow)
    assert torch.equal(beam(model, source, 1, 20).tokens[:, 0], slow)
    fast, slow = (beam(model, source, 4, 20, n_best=3, use_cache=use) for use in (True, False))
    assert torch.equal(fast.tokens, slow.tokens)
    assert difference(fast.scores, slow.scores) < 1e-5
    chance = {"temperature": 1.5, "top_k": 9, "seed": 0}
    chance |= {"max_new_tokens": 8}
    drawn = [sample(model, source, **chance, use_cache=use) for use in (True, False)]
    assert torch.equal(*drawn)
    model.cpu()


def test_a_sentence_may_outgrow_the_room_that_was_taken_for_it():
    model, source = untrained(n_layers=1, bias=NEVER), ragged([3, 2])
    assert torch.equal(greedy(model, source, 140), greedy(model, source, 140, use_cache=False))


def test_where_an_attention_ignores_its_look_search_computes_each_step_from_the_first_token():
    class Forgetful(MultiHeadAttention):
        def forward(self, x, y=None, look=None):  # noqa: ARG002
            return super().forward(x, y)

    model, source = untrained(bias=NEVER), ragged(LENGTHS)
    model.decoder.layers[0].self_attention = Forgetful(16, 4).double()
    for find in (lambda **options: greedy(model, source, 4, **options),
                 lambda **options: beam(model, source, 3, 4, **options).tokens):  # fmt: skip
        with pytest.warns(UserWarning, match="does not use its look"):
            fast = find()
        assert torch.equal(fast, find(use_cache=False))


# --- Beam search ------------------------------------------------------------------------------


def plain_beam(model, source, width, limit, n_best, length_penalty, normalize):
    """Beam search as one would write it down: lists, one sentence, no stopping early."""
    memory, alive, finished = model.encode(source), [(0.0, ())], []
    first, divisor = (5, 6) if normalize == "gnmt" else (0, 1)
    for time in range(1, limit + 1):
        target = torch.tensor([[BOS, *sentence] for _, sentence in alive])
        every = memory.expand(len(alive), -1, -1)
        x = model.decode(target, every, source_mask=padding_mask(source))
        scores = without_padding(model.generator(x[:, -1])).log_softmax(-1).tolist()
        candidates = [(total + score, (*sentence, token))
                      for (total, sentence), row in zip(alive, scores, strict=True)
                      for token, score in enumerate(row) if token != PADDING]  # fmt: skip
        candidates = sorted(candidates, reverse=True)[: 2 * width]
        for total, sentence in candidates[:width]:
            if sentence[-1] == EOS or time == limit:
                finished.append((total / ((first + time) / divisor) ** length_penalty, sentence))
        alive = [(t, sentence) for t, sentence in candidates if sentence[-1] != EOS][:width]
        if not alive:
            break
    return sorted(finished, reverse=True)[:n_best]


@given(
    st.integers(0, 10_000), st.sampled_from([3, 4, 5, 9, 23]), st.integers(1, 6), st.integers(1, 8),
    st.sampled_from([0.0, 0.6, 1.0, 5.0]), st.sampled_from(["gnmt", "length"]),
    st.sampled_from([-1.0, 0.0, 2.0, 4.0]), st.lists(st.integers(1, 5), min_size=1, max_size=3),
)  # fmt: skip
def test_beam_equals_the_plain_one(seed, vocabulary, width, limit, penalty, measure, end, lengths):
    width = min(width, vocabulary)
    n_best = 1 + seed % width
    model = untrained(seed=seed, target_vocab=vocabulary, n_layers=1)
    with torch.no_grad():
        model.generator.bias[EOS] += end
        source = ragged(lengths)
        how = {"length_penalty": penalty, "normalize": measure}
        found = beam(model, source, width, limit, n_best=n_best, **how)
        for row, tokens, scores in zip(source, found.tokens, found.scores, strict=True):
            only = row[row != PADDING][None]
            expected = plain_beam(model, only, width, limit, n_best, **how)
            real = scores.isfinite()
            assert int(real.sum()) == len(expected)
            assert scores[real].tolist() == pytest.approx([s for s, _ in expected], abs=1e-4)
            assert (tokens[~real] == PADDING).all()
            gaps = [a[0] - b[0] for a, b in itertools.pairwise(expected)]
            if min(gaps, default=1.0) > 1e-4:  # no ties
                assert strip(tokens[real]) == [list(sentence) for _, sentence in expected]


def test_finished_sentences_leave_the_batch(monkeypatch):
    source, model = ragged(LENGTHS, 12), copier()
    step = Mock(side_effect=Steps.step)
    monkeypatch.setattr(Steps, "step", lambda *given: step(*given))
    for find in (lambda: greedy(model, source, 40), lambda: beam(model, source, 4, 40)):
        step.reset_mock()
        find()
        sizes = [len(call.args[1]) for call in step.mock_calls]
        assert sizes[0] == 5 > sizes[-1]
        assert sizes == sorted(sizes, reverse=True)
        assert len(sizes) < 40


@pytest.mark.parametrize("width", [1, 3])
def test_the_limit_of_a_sentence_is_the_papers_and_does_not_depend_on_its_neighbours(width):
    """Of a model that never ends, and would write padding; the batch's counts for nobody either."""
    model, source = untrained(bias={PADDING: 1e6, **NEVER}), ragged([7, 1])

    def found(source):
        if width == 1:
            return strip(greedy(model, source))
        return strip(beam(model, source, width, n_best=2).tokens.flatten(0, 1))

    together = found(F.pad(source, (0, 3)))
    assert together == [written for row in source for written in found(row[row != PADDING][None])]
    assert [len(written) for written in together[:: min(width, 2)]] == [57, 51]
    learned = untrained(positions="learned", max_len=11, bias=NEVER)
    assert greedy(learned, ragged([3])).shape == (1, 11)


def test_a_search_leaves_the_model_as_it_was_and_its_results_can_be_used_in_training():
    model, source = untrained(dropout=0.5).train(), ragged(LENGTHS)
    model.encoder.eval()
    assert torch.equal(greedy(model, source, 5), greedy(model, source, 5))
    assert model.training
    assert model.decoder.layers[0].training
    assert not model.encoder.training
    for tokens in (greedy(model, source, 5), beam(model, source, 2, 5).tokens[:, 0]):
        model.zero_grad()
        model(source, tokens).square().sum().backward()
        assert model.generator.weight.grad.abs().max() > 0


@given(st.integers(10, 3000), st.integers(1, 10), st.sampled_from([4, 32]), st.booleans())
def test_top_k_by_blocks_is_top_k(length, k, block, below_zero):
    x = torch.randn(3, length)
    x = -1 - x.abs() if below_zero else x  # less than what the last block might be filled with
    values, indices = top_k(x, k, block)
    assert torch.equal(values, x.topk(k).values)
    assert torch.equal(x.gather(-1, indices), values)


# --- Sampling ---------------------------------------------------------------------------------

LOGITS = torch.tensor([0.5, -1.0, 2.0, -math.inf, 1.5, 0.0, -3.0])


@pytest.mark.parametrize(("top_k", "top_p", "kept"), [
    (None, 1.0, range(7)),
    (3, 1.0, (2, 4, 0)),
    (None, 0.7, (2, 4)),  # 0.50, 0.30, 0.11, ...
    (None, 0.85, (2, 4, 0)),
    (2, 0.6, (2,)),
])  # fmt: skip
def test_tokens_are_drawn_as_often_as_their_probabilities_say(top_k, top_p, kept):
    draws = 100_000
    tokens = draw(LOGITS.expand(draws, -1), torch.rand(draws), top_k, top_p)
    found = tokens.bincount(minlength=len(LOGITS)) / draws
    left_out = torch.tensor([token not in kept for token in range(len(LOGITS))])
    assert (found - LOGITS.masked_fill(left_out, -torch.inf).softmax(-1)).abs().max() < 0.005


def test_the_largest_chance_draws_a_token_that_can_be_drawn():
    almost_one = torch.tensor([1 - 2**-24, 0.0])
    logits = torch.full((2, 5000), -torch.inf).index_fill(1, torch.arange(3000), 0.0)
    assert draw(logits, almost_one).max() < 3000
    assert draw(logits, almost_one, top_k=7).max() < 7  # ties: the first ones


def test_what_is_drawn_does_not_depend_on_who_has_finished(monkeypatch):
    source, model = ragged(LENGTHS, 12).repeat_interleave(6, dim=0), copier()
    dropping = sample(model, source, max_new_tokens=12, temperature=3.0, seed=0)
    monkeypatch.setattr(search, "worth_dropping", lambda *_: False)
    assert torch.equal(dropping, sample(model, source, max_new_tokens=12, temperature=3.0, seed=0))
    assert len({len(row) for row in strip(dropping)}) > 3  # they end at different times


def test_a_seed_begins_anew_and_a_generator_goes_on_as_pytorchs_own_numbers_do():
    model, source = untrained(), ragged(LENGTHS)
    drawn_by = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    first = sample(model, source, max_new_tokens=6)
    for seed in (3, np.int64(3), np.uint8(3), drawn_by):
        assert torch.equal(sample(model, source, max_new_tokens=6, seed=seed), first)
    for seed in (None, drawn_by, 4):
        assert not torch.equal(sample(model, source, max_new_tokens=6, seed=seed), first)


def test_a_low_temperature_or_one_token_is_greedy_search():
    """In float16 too, which holds 140 and not 140 / 0.001."""
    for model in (untrained(), untrained(bias={5: 140.0}).half()):
        source = ragged(LENGTHS)
        wanted = greedy(model, source, 6)
        for options in ({"temperature": 1e-3}, {"top_k": 1}, {"top_p": 1e-6}):
            assert torch.equal(sample(model, source, max_new_tokens=6, **options), wanted)


@pytest.mark.parametrize("find", [beam, sample])
def test_memory_is_taken_for_what_is_written_and_not_for_the_limit(find):
    find(untrained(bias={EOS: 1e6}), ragged([5, 3, 1]), max_new_tokens=10**15)  # all end at once


@pytest.mark.parametrize("use_cache", [True, False])
def test_every_search_begins_with_the_prefix_and_goes_on_as_the_model_does(use_cache):
    model, source = untrained(), ragged([5, 3, 4])
    prefix = torch.tensor([[7, 9, 4], [8, PADDING, PADDING], [PADDING, 6, PADDING]])
    given = {"max_new_tokens": 9, "prefix": prefix, "use_cache": use_cache}
    found = [greedy(model, source, **given), sample(model, source, seed=1, **given)]
    found += beam(model, source, 3, n_best=3, **given).tokens.unbind(1)
    for tokens in found:
        assert torch.equal(tokens[:, :3].where(prefix != PADDING, 0), prefix)
    for row, forced in enumerate(prefix):  # behind it, the likeliest token each time
        written = strip(found[0])[row]
        for place in range(len(written)):
            target = torch.tensor([[BOS, *written[:place]]])
            best = without_padding(model(source[row : row + 1], target)[0, -1]).argmax().item()
            assert written[place] == ((place < 3 and forced[place].item()) or best)
