"""BLEU as everybody can compute it again: sacreBLEU's, with its signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .validation import invalid


class Bleu(NamedTuple):
    score: float
    signature: str  # version, tokeniser, case: what two scores must share to be compared

    def __str__(self) -> str:
        return f"{self.score:.2f}"


def bleu(written: Sequence[str], references: Sequence[str]) -> Bleu:
    """Of whole texts, one reference a sentence; upper and lower case count as the same."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        fix = 'install it with pip install "unmasked[text]"'
        raise invalid("bleu", "the package sacrebleu", "none", fix) from None
    if len(written) != len(references) or not written:
        got = f"{len(written)} and {len(references)}"
        raise invalid("written", "as many translations as references", got, "leave none out")
    metric = BLEU(lowercase=True)
    score = metric.corpus_score(list(written), [list(references)]).score
    return Bleu(score, str(metric.get_signature()))
