"""Each check accepts what is right, whoever wrote it, and says what is wrong with the rest."""

import math
import re
from collections import Counter
from operator import mul, truediv

import numpy as np
import pytest
import torch

from helpers import answers
from unmasked.evaluation import bleu
from unmasked.masks import causal_mask, padding_mask
from unmasked.positions import frequencies, shift_matrix
from unmasked.translator import Translator
from unmasked_book.ablation import without
from unmasked_book.exercises import CHECKS, check_answer
from unmasked_book.exercises.compare import same_number
from unmasked_book.exercises.decoder import CASES, SOURCE, talkative, written
from unmasked_book.exercises.encoder import added, pre_norm
from unmasked_book.exercises.translating import once
from unmasked_book.experiments.statistics import difference, interval


def leak(forward, target, places):
    """Whether an exchange of the word at one of these places moves an output before it."""
    changed = [target.index_fill(1, torch.tensor([place]), 9) for place in places]
    return any(
        not torch.equal(forward(other)[:, :place], forward(target)[:, :place])
        for place, other in zip(places, changed, strict=True)
    )


def stepped(begin, target):
    step = begin()
    return torch.cat([step(target[:, [t]]) for t in range(target.shape[1])], dim=1)


def bleu_of(written, references):
    """By hand, for sentences as lists of words."""
    logarithm = min(0.0, 1 - sum(map(len, references)) / sum(map(len, written)))
    for n in (1, 2, 3, 4):
        ours, theirs = (
            [Counter(zip(*(words[i:] for i in range(n)), strict=False)) for words in texts]
            for texts in (written, references)
        )
        shared = sum((a & b).total() for a, b in zip(ours, theirs, strict=True))
        logarithm += math.log(shared / sum(count.total() for count in ours)) / 4
    return 100 * math.exp(logarithm)


def differing(translator, texts, head):
    smaller = without(translator.model, heads=[head])
    other = Translator(smaller, translator.source, translator.target, translator.about)
    return sum(map(str.__ne__, translator.translate(texts), other.translate(texts)))


RIGHT = {
    "masks 1": 27,
    "masks 2": lambda n, width: causal_mask(n) & causal_mask(n).T.triu(1 - width).T.triu(1 - width),
    "positions 1": 60_600.0,
    "positions 2": lambda row, shift: shift_matrix(len(row), shift) @ row,
    "attention 1": 24,
    "feed_forward 1": 2 * 512 * 2048 + 2048 + 512,
    "feed_forward 2": lambda: (torch.tensor([[-2.0, 2.0]]), torch.tensor([[0.5], [0.5]])),
    "transformer 1": 4_204_032,
    "transformer 2": lambda d, f, n, v: (
        v * d + n * (12 * d**2 + 12 * d + 4 * d * f + 2 * f + 12 * d)
    ),
    "decoder 1": 6_144_000,
    "decoder 2": lambda past, n: torch.ones(n, past + n).tril(past).bool(),
    "training 1": 0.0007,
    "training 2": lambda step, d, warmup: (
        (d * step) ** -0.5 if step > warmup else step * d**-0.5 * warmup**-1.5
    ),
    "decoding 1": -1.583,
    "translating 1": lambda pieces, pair: once(pieces, pair),
    "better 1": 36.79,
    "better 2": lambda a, b: difference(a, b).low,
    "better +": bleu_of,
    "inside 1": lambda weights, offset: weights.diagonal(offset).mean(),
    "inside 2": differing,
    "speed 1": 10,
    "speed 2": lambda shares, factors: 1 / sum(map(truediv, shares, factors)),
    "family 1": 4096 * (4096 + 4096 + 1024 + 1024),
    "family 2": lambda distance: min(
        distance if distance < 16 else 16 + int(math.log(distance / 16, 2) * 16 / 3), 31
    ),
    "claims 1": lambda start, rate, d_k: (start / d_k**0.25, rate / d_k**0.25),
    "testing 1": lambda whole, begin, target: torch.allclose(stepped(begin, target), whole(target)),
    "testing 2": lambda forward, target: leak(forward, target, range(1, target.shape[1])),
    "encoder 1": 1.41,
    "encoder 2": lambda x, eps: torch.nn.functional.layer_norm(x, x.shape[-1:], eps=eps),
} | answers.RIGHT
WRONG = {
    "masks 1": [
        (25, "25 is too low"),
        (30, "30 is too high"),
    ],
    "masks 2": [
        (lambda n, width: causal_mask(n), r"window\(5, 1\) holds True, not False at \[1, 0\]"),
        (lambda n, width: causal_mask(n).int(), "has the type torch.int32, not torch.bool"),
    ],
    "positions 1": [(2 * math.pi * 10000, "62,831.8.* is too high"), (6.28, "too low")],
    "positions 2": [
        (lambda row, shift: row, "holds"),
        (lambda row, shift: shift_matrix(len(row), -shift) @ row, "holds"),
    ],
    "attention 1": [(8, "8 is too low"), (192, "192 is too high")],
    "transformer 1": [(3_152_384, "too low")],
    "transformer 2": [
        (lambda d, f, n, v: 12 * n * d**2 + v * d, r"too low. \(size\(4, 8, 1, 10\)\)")
    ],
    "decoder 1": [(3_072_000, "3,072,000 is too low")],
    "decoder 2": [
        (lambda past, n: causal_mask(n), r"step_mask\(4, 1\) has shape"),
        (
            lambda past, n: torch.ones(n, past + n).tril().bool(),
            r"step_mask\(4, 1\) holds False",
        ),
    ],
    "training 1": [(0.001, "0.001 is too high"), ((512 * 4000) ** 0.5, "too high")],
    "training 2": [
        (lambda step, d, warmup: (d * step) ** -0.5, r"too high. \(rate\(1, 512, 4000\)\)"),
        (lambda step, d, warmup: d**-0.5 * step * warmup**-1.5, r"\(rate\(9000, 64, 100\)\)"),
    ],
    "decoding 1": [(-2.4, "-2.4 is too low"), (-2.4 / 7, "too high")],
    "translating 1": [
        (lambda pieces, pair: pieces, r"\['a', 'a', 'a'\] with"),
        (
            lambda pieces, pair: "|".join(pieces).replace("|".join(pair), "".join(pair)).split("|"),
            "gives",
        ),
    ],
    "better 1": [(0.3679, "too low"), (50.0, "too high")],
    "better 2": [
        (lambda a, b: difference(a, b).mean, r"is too high. That was sure_gain\(\[0.31"),
        (lambda a, b: interval(a).low - interval(b).high, r"too low. That was sure_gain\("),
    ],
    "better +": [
        (lambda written, references: bleu_of(written, references) / 100, "too low"),
        (
            lambda written, references: (
                sum(
                    bleu([" ".join(ours)], [" ".join(theirs)]).score
                    for ours, theirs in zip(written, references, strict=True)
                )
                / len(written)
            ),
            "for 2 sentences",
        ),
    ],
    "inside 1": [
        (lambda weights, offset: weights.diagonal(-offset).mean(), r"\(offset -1\)"),
        (lambda weights, offset: weights.diagonal(offset).sum() / 5, r"\(offset -1\)"),
    ],
    "inside 2": [
        (lambda _translator, _texts, _head: 0, "0 is too low"),
        (lambda _translator, texts, _head: len(texts), r"12 is too high.*without \("),
    ],
    "speed 1": [(5, "5 is too low"), (20, "20 is too high")],
    "speed 2": [
        (lambda shares, factors: sum(map(mul, shares, factors)), "2.5 is too high"),
        (lambda shares, factors: max(factors), r"3.0 is too high. That was speedup\(\[0.75"),
    ],
    "family 1": [(4 * 4096**2, "too high"), (4096**2 + 2 * 4096 * 1024, "too low")],
    "family 2": [
        (lambda distance: min(distance, 31), r"17 is too high. \(bucket\(17\)\)"),
        (lambda distance: min(distance // 4, 31), r"\(bucket\(1\)\)"),
    ],
    "claims 1": [
        (lambda start, rate, d_k: start / d_k**0.25, "should be a start and a rate"),
        (lambda start, rate, d_k: (start / d_k**0.5, rate), r"start of undivided\(.* holds"),
        (lambda start, rate, d_k: (start / d_k**0.25, rate), "too high. With this rate"),
        (lambda start, rate, d_k: (start / d_k**0.25, rate / d_k**0.5), "too low. With this rate"),
    ],
    "testing 1": [
        (lambda whole, begin, target: True, "a step that forgets what came before"),
        (lambda whole, begin, target: False, "of a right step, agrees.* says False"),
    ],
    "testing 2": [
        (lambda forward, target: False, "outputs see 'everything' sees a later word"),
        (lambda forward, target: leak(forward, target, [2, 3]), "'last word at the start'"),
    ],
    "encoder 1": [(1.22, "1.22 is too low")],
    "encoder 2": [
        (lambda x, eps: (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + eps), "holds"),
        (
            lambda x, eps: torch.nn.functional.layer_norm(x, x.shape, eps=eps),
            r"\[2, 3, 8\] holds",
        ),
    ],
    "feed_forward 1": [(2 * 512 * 2048, "too low")],
    "feed_forward 2": [
        (
            lambda: (torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0], [1.0]])),
            "holds 0.0, not 3.0",
        ),
        (lambda: (torch.tensor([[1.0], [-1.0]]), torch.ones(2, 1)), r"W₁ has shape \[2, 1\]"),
    ],
} | answers.WRONG


def test_every_exercise_is_tested_here():
    assert set(RIGHT) == set(WRONG) == set(CHECKS)


@pytest.mark.parametrize("exercise", RIGHT)
def test_a_right_answer_is_right(exercise, capsys):
    check_answer(exercise, RIGHT[exercise])
    assert capsys.readouterr().out == f"Exercise {exercise}: right.\n"


@pytest.mark.parametrize(
    ("exercise", "case"), [(e, c) for e, cases in WRONG.items() for c in cases]
)
def test_a_wrong_answer_gets_a_case_in_which_it_fails(exercise, case, capsys):
    answer, message = case
    check_answer(exercise, answer)
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith(f"Exercise {exercise}: not yet")
    assert re.search(message, out), out


@pytest.mark.parametrize("exercise", RIGHT)
@pytest.mark.parametrize("answer", [..., None, lambda *_: None])
def test_no_answer_is_not_a_wrong_one(exercise, answer, capsys):
    if callable(answer) and not callable(RIGHT[exercise]):
        answer = answer()  # this exercise asks for a number
    check_answer(exercise, answer)
    assert capsys.readouterr().out == f"Exercise {exercise}: your turn.\n"


@pytest.mark.parametrize("layers", [1, 3])
def test_what_is_added_to_the_encoders_stream_adds_up_to_its_memory(layers):
    model = pre_norm(layers)
    parts = added(model, padding_mask(SOURCE))
    memory = model.encoder.norm(sum(parts))
    torch.testing.assert_close(memory, model.encode(SOURCE))


@pytest.mark.parametrize("case", CASES)
def test_the_models_that_are_asked_to_write_tell_mistakes_apart(case):
    """Neither one token again and again, nor anything that rounding could decide."""
    layers, std, seed, n = case
    model = talkative(layers, std, seed)
    with torch.no_grad():
        tokens = written(model, n)
        target = torch.cat([torch.ones(2, 1, dtype=torch.long), tokens], dim=1)
        logits = model(SOURCE, target)[:, :-1]
    assert all(len(set(row)) >= 4 for row in tokens.tolist())
    assert (tokens[:, :-1] == 2).any()
    assert (logits.argmax(-1) == 0).any()
    best, second = logits[..., 1:].topk(2).values.unbind(-1)
    assert (best - second).min() > 0.01


def test_a_tensor_of_one_number_is_a_number(capsys):
    check_answer("positions 1", 2 * torch.pi / frequencies(512)[-1])
    assert "right" in capsys.readouterr().out


@pytest.mark.parametrize("number", [np.int64(27), np.float32(27)])
def test_a_number_of_numpy_is_a_number(number):
    assert same_number(number, 27.0) is None
    assert "too high" in same_number(number, 26.0)


@pytest.mark.parametrize(
    "exercise", [name for name, right in RIGHT.items() if isinstance(right, float | int)]
)
def test_not_a_number_is_not_right(exercise, capsys):
    check_answer(exercise, math.nan)
    assert capsys.readouterr().out.startswith(f"Exercise {exercise}: not yet: this is not a number")


def test_checking_leaves_the_random_numbers_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    check_answer("masks 2", lambda n, width: torch.rand(n, n) > 0.5)
    assert torch.equal(torch.rand(1), expected)


def test_an_unknown_exercise_is_refused():
    with pytest.raises(ValueError, match="exercise: expected 'masks 1' or 'masks 2'"):
        check_answer("masks 9", 1)
