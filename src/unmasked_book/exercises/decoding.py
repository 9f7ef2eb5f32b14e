"""Judges answers to the exercises of chapter 9."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

import unmasked
from unmasked import Transformer, search
from unmasked.tokens import BOS, EOS, PADDING
from unmasked_book.captions import CAPTIONS
from unmasked_book.exercises.compare import number
from unmasked_book.search_tree import log_probabilities

CAKE, ROOM = "Auf dem Tisch steht ein Kuchen.", 40


def beam_of_a_model(answer: Callable[[Transformer, Tensor, int, int], Any]) -> str | None:
    """Judges a reader's beam search: translations must be as probable as those of `search.beam`."""
    translator = unmasked.load("de-en")
    model = translator.model
    cases = [(CAPTIONS[0].german, 1), (CAKE, 4), *((c.german, 4) for c in CAPTIONS[:3])]
    for caption, width in cases:
        source = translator.tokens([caption])
        found = search.beam(model, source, width, ROOM, length_penalty=0.0)
        wanted = [token for token in found.tokens[0, 0].tolist() if token != PADDING]
        got = answer(model, source, width, ROOM)
        case = f"of {caption!r}, with a width of {width},"
        if not isinstance(got, list) or not all(isinstance(token, int) for token in got):
            return f"not yet: a list of tokens is asked for, and this is {got!r}."
        if got[:1] == [BOS] or got[-1:] != [EOS] or PADDING in got or got.count(EOS) > 1:
            return f"not yet: {case} it finds {got}: no 1 and no 0 in it, one 2 at its end."
        mine = sum(log_probabilities(model, source, got[:n])[x].item() for n, x in enumerate(got))
        theirs = found.scores[0, 0].item()
        if mine < theirs - 1e-3:
            texts = [translator.target.decode(tokens) for tokens in (got, wanted)]
            return (
                f"not yet: {case} it finds {texts[0]!r} (log-probability {mine:.2f}), and a beam "
                f"of {width} finds {texts[1]!r} ({theirs:.2f})."
            )
    return None


CHECKS = {
    "1": number(-2.4 / 2**0.6, 0.01),  # the sum of the logarithms over the length penalty
    "+": beam_of_a_model,
}
