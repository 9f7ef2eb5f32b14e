"""Tests that an exercise says what is wrong with an answer; the notebooks give it right ones."""

# ruff: noqa: E501 (tables)

import math
import re

import numpy as np
import pytest
import torch

from unmasked.masks import causal_mask, padding_mask
from unmasked.positions import shift_matrix
from unmasked.search import beam
from unmasked_book.exercises import CHECKS, check_answer
from unmasked_book.exercises.decoder import written
from unmasked_book.exercises.encoder import added
from unmasked_book.exercises.family import Ear, edited, t5_attention
from unmasked_book.exercises.positions import rotated
from unmasked_book.experiments.statistics import interval
from unmasked_book.family import GPT, turned
from unmasked_book.workshop.mistakes import known


def memory(keys, values, sharp, threshold):
    bias = torch.full((len(keys),), -sharp * threshold)
    return sharp * keys.T, bias, values, torch.zeros(values.shape[1])


def narrow(model, source, _width, limit):
    found = beam(model, source, 1, limit, length_penalty=0.0).tokens[0, 0].tolist()
    return [token for token in found if token]


def anew(model, source):
    """Computes the right logits, but without a cache."""
    given = []

    def step(token):
        given.append(token)
        return model(source, torch.tensor([given]))[0, -1]

    return step


def known_mistakes(exercise, right):
    return [(exercise, edited(right, *each.changes[0]), f"with one mistake: {re.escape(each.words)}")
            for each in known(right.__name__)]  # fmt: skip


WRONG = [
    ("masks 2", lambda n, width: causal_mask(n), r"window\(5, 1\) holds True, not False at \[1, 0\]"),
    ("masks 2", lambda n, width: causal_mask(n).int(), "has the type torch.int32, not torch.bool"),
    ("positions 2", lambda row, shift: shift_matrix(len(row), -shift) @ row, "holds"),
    ("transformer 2", lambda d, f, n, v: 12 * n * d**2 + v * d, r"too low. That was size\(4, 8, 1, 10\)"),
    ("decoder 2", lambda past, n: causal_mask(n), r"step_mask\(4, 1\) has shape"),
    ("attention 2", lambda x, n_heads: x.unflatten(-1, (-1, n_heads)).transpose(1, 2), r"shape \[2, 2, 3, 4\]"),
    ("training 2", lambda model, source, target: model(source, target).mean(), r"That was loss\(model, x \[1, 3\]"),
    ("translating 1", lambda pieces, pair: pieces, r"\['a', 'a', 'a'\], \('a', 'a'\)\) is"),
    ("better 2", lambda a, b: interval(a).low - interval(b).high, r"too low. That was sure_gain\("),
    ("better +", lambda written, references: 0.01, "too low"),
    ("inside 1", lambda weights, offset: weights.diagonal(offset).sum() / 5, r"\[5, 5\], -1\)"),
    ("inside 2", lambda _translator, texts, _head: len(texts), r"12 is too high.*without \("),
    ("speed 2", lambda shares, factors: max(factors), r"3.0 is too high. That was speedup\(\[0.75"),
    ("family 2", lambda distance: min(distance, 31), r"17 is too high. That was bucket\(17\)"),
    ("claims 1", lambda start, rate, d_k: start / d_k**0.25, "should be a start and a rate"),
    ("claims 1", lambda start, rate, d_k: (start / d_k**0.5, rate), r"start of undivided\(.* holds"),
    ("claims 1", lambda start, rate, d_k: (start / d_k**0.25, rate), "too high. With this rate"),
    ("testing 1", lambda whole, begin, target: True, "a step that forgets what came before"),
    ("testing 1", lambda whole, begin, target: False, "of a right step, agrees.* says False"),
    ("encoder 2", lambda x, eps: (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + eps), "holds"),
    ("feed_forward 2", lambda: (torch.tensor([[1.0], [-1.0]]), torch.ones(2, 1)), r"W₁ has shape \[2, 1\]"),
    ("masks +", lambda tokens: padding_mask(tokens) & causal_mask(tokens.shape[1]), "position 4 sees position 0, .* another sentence"),
    ("positions +", lambda x, start: rotated(x, start + 1), r"rotate\(x, 0\) with x of .* holds"),
    ("positions +", lambda x, start: rotated(x, start, sign=-1), "it turns the other way"),
    ("positions +", lambda x, start: turned(x), r"it pairs columns i and i \+ K/2"),
    ("feed_forward +", lambda keys, values: memory(keys, values, 1.0, 0.0), "the layer for the keys holds"),
    ("feed_forward +", lambda keys, values: memory(keys, values, 2.0, 0.5), "largest cosine with a key is 0.5"),
    ("encoder +", lambda model, source: added(model)[1:], "a list of 3 tensors: the embedding, and two"),
    ("decoder +", lambda model, source, n: written(model, n), r"encoder.0.feed_forward saw \d+ positions, not 5"),
    ("training +", lambda parameters, rate, *given: torch.optim.Adam(parameters, 3 * rate, *given), "after step 1, a parameter holds .* is the correction by 1 - β"),
    ("decoding +", narrow, "with a width of 4, it finds 'a cake is standing .*and a beam of 4 finds"),
    ("decoding +", lambda *given: narrow(*given)[:-1], "no 1 and no 0 in it, one 2 at its end"),
    ("decoding +", lambda *_: "a cake", "a list of tokens is asked for, and this is 'a cake'"),
    ("translating +", lambda words, n: [], r"gives 0 merges, where \d were asked for"),
    ("inside +", lambda *_: torch.zeros(7, 2, 3), r"has shape \[7, 2, 3\], not \[8, 2, 3\]"),
    ("speed +", anew, r"step 1 for the source \[5, 7, 9, 4, 2\] takes \d+ calls, more than 80"),
    ("testing +", lambda model: set(), r"no causal mask breaks causality, and examine\(...\) says nothing"),
    ("testing +", lambda model: {"source"}, r"Healthy breaks nothing, and examine\(...\) says source"),
    *known_mistakes("family +", GPT),
    ("family +", edited(GPT, "decoder_norm(x))", "decoder_norm(x)) + 1"), "the output holds"),
    *known_mistakes("family + T5", t5_attention),
    ("family + T5", lambda q, *_: q, "the encoder's output holds"),
    ("family + T5", lambda q, *_: (q, q), "the encoder's output should be a tensor and is a tuple"),
    *known_mistakes("family + Whisper", Ear),
    ("family + Whisper", edited(Ear, "stride=2, ", ""), r"has shape \[2, 40, 12\], not \[2, 20, 12\]"),
]  # fmt: skip


@pytest.mark.parametrize(("exercise", "answer", "message"), WRONG)
def test_a_wrong_answer_gets_a_case_in_which_it_fails(exercise, answer, message, capsys):
    check_answer(exercise, answer)
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith(f"Exercise {exercise}: not yet")
    assert re.search(message, out), out


def test_a_right_answer_is_right_whatever_it_holds_at_padding(capsys):
    new = "decoder_norm(x)).masked_fill(target[..., None] == 0, 7)"
    check_answer("family +", edited(GPT, "decoder_norm(x))", new))
    assert capsys.readouterr().out == "Exercise family +: right.\n"


NUMBERS = CHECKS.keys() - {exercise for exercise, *_ in WRONG}  # the others ask for a number


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.int64(10**9), "1,000,000,000 is too high."),
        (torch.tensor(-9.5), "-9.5 is too low."),
        (math.nan, "this is not a number (NaN)."),
    ],
)
def test_a_wrong_number_is_too_high_or_too_low_or_none(answer, message, capsys):
    for exercise in sorted(NUMBERS):
        check_answer(exercise, answer)
        assert capsys.readouterr().out == f"Exercise {exercise}: not yet: {message}\n"


@pytest.mark.parametrize("exercise", CHECKS)
@pytest.mark.parametrize("answer", [..., None, lambda *_: None])
def test_no_answer_is_not_a_wrong_one(exercise, answer, capsys):
    check_answer(exercise, None if exercise in NUMBERS else answer)
    assert capsys.readouterr().out == f"Exercise {exercise}: your turn.\n"


def test_checking_leaves_the_random_numbers_alone():
    state = torch.get_rng_state()
    check_answer("masks 2", lambda n, width: torch.rand(n, n) > 0.5)
    assert torch.equal(torch.get_rng_state(), state)
