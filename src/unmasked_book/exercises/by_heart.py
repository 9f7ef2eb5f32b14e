"""The whole Transformer from an empty file: every piece of plain.py, written by a reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

import unmasked
from unmasked import plain
from unmasked.search import greedy
from unmasked_book.captions import CAPTIONS
from unmasked_book.exercises import attention
from unmasked_book.exercises.answering import NoAnswerError, answering, verdict
from unmasked_book.exercises.compare import same_tensor, same_where
from unmasked_book.exercises.modules import same_module, takes_weights

Piece = Callable[..., Any]  # a function, or a class of modules


def by_heart(pieces: Any) -> str:
    """In the order of plain.py; prints a line a piece, up to the first that is not right.

    `pieces` has them by name: a dictionary, or anything else with attributes, such as a module.
    """
    for name, check in PIECES.items():
        piece = pieces.get(name) if isinstance(pieces, Mapping) else getattr(pieces, name, None)
        said = verdict(check, piece)
        print(f"{name}: {said}")
        if said == "your turn.":
            raise NoAnswerError
        if said != "right.":
            return "not yet."
    return "right."


def positions(answer: Callable[[int, int], Tensor]) -> str | None:
    """Sines in the even columns, cosines in the odd."""
    for sizes in ((1, 4), (7, 6), (90, 64)):
        if wrong := same_tensor(answer(*sizes), plain.positions(*sizes), f"positions{sizes}"):
            return wrong
    return None


def feed_forward(answer: Piece) -> str | None:
    return same_module(answer, plain.FeedForward, (8, 16), torch.randn(2, 5, 8))


SIZES = (8, 2, 16, 0.1)  # of a layer: width, heads, inner width, dropout
REAL = torch.arange(7) < torch.tensor([7, 4]).view(2, 1, 1, 1)  # [2, 1, 1, 7], True at words


def encoder_layer(answer: Piece) -> str | None:
    return same_module(answer, plain.EncoderLayer, SIZES, torch.randn(2, 7, 8), REAL)


def decoder_layer(answer: Piece) -> str | None:
    so_far = torch.ones(5, 5, dtype=torch.bool).tril()
    inputs = (torch.randn(2, 5, 8), torch.randn(2, 7, 8), so_far, REAL)
    return same_module(answer, plain.DecoderLayer, SIZES, *inputs)


def transformer(answer: Piece) -> str | None:
    """With shipped weights the same numbers and translations; dropout; and no fault is found."""
    translator = unmasked.load("de-en")
    original, c = plain.Transformer.from_pretrained("de-en"), translator.model.config
    mine = answer(c.source_vocab, c.target_vocab, c.d_model, c.n_heads, c.n_layers, c.d_ff)
    if wrong := takes_weights(mine, original, "Transformer(…)"):
        return wrong
    pairs = [(caption.german, caption.english) for caption in CAPTIONS[:4]]
    source, target = translator.corpus(pairs).batch()
    with torch.no_grad():
        got, expected = mine(source, target), original(source, target)
    case = "the tensor of logits, with the weights of de-en,"
    if wrong := same_where(target != 0, got, expected, case, atol=1e-3):
        return wrong
    got, expected = answering(mine.generate)(source, 30), greedy(translator.model, source, 30)
    if wrong := same_tensor(got, expected, "generate(source, 30)"):
        return wrong
    return faults(answer(9, 9, 16, 2, 1, 32, 0.5))


def faults(model: nn.Module) -> str | None:
    """What is wrong with a small model before training."""
    tokens = torch.tensor([[3, 4, 5, 2]])
    model.train()
    if torch.equal(model(tokens, tokens), model(tokens, tokens)):
        return "not yet: in training, two calls give the same numbers; there is no dropout."
    report = unmasked.check(model.eval(), source_vocab=9, target_vocab=9, quiet=True)
    for fault in report.faults:
        return f"not yet: unmasked.check finds a fault: {fault.what}; {fault.advice}."
    return None


PIECES: dict[str, Callable[[Any], str | None]] = {
    "positions": positions,
    "MultiHeadAttention": attention.multihead,
    "FeedForward": feed_forward,
    "EncoderLayer": encoder_layer,
    "DecoderLayer": decoder_layer,
    "Transformer": transformer,
}
