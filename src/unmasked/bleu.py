"""BLEU as everybody can compute it again: sacreBLEU's, with its signature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .validation import check_at_least, invalid


class Bleu(NamedTuple):
    score: float
    signature: str  # version, tokeniser, case: what two scores must share to be compared
    interval: float | None = None  # ± so much, were the sentences drawn again: in 95 of 100 draws

    def __str__(self) -> str:
        return f"{self.score:.2f}"


def bleu(written: Sequence[str], references: Sequence[str], *, draws: int = 0) -> Bleu:
    """Of whole texts, one reference a sentence; upper and lower case count as the same.

    With `draws`, such as 1000, the sentences are drawn again so often (bootstrap), for an interval.
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        fix = 'install it with pip install "unmasked[text]"'
        raise invalid("bleu", "the package sacrebleu", "none", fix) from None
    if len(written) != len(references) or not written:
        got = f"{len(written)} and {len(references)}"
        raise invalid("written", "as many translations as references", got, "leave none out")
    metric = BLEU(lowercase=True)
    texts = list(written), [list(references)]
    score, signature = metric.corpus_score(*texts).score, str(metric.get_signature())
    if not draws:
        return Bleu(score, signature)
    check_at_least("draws", draws, 2)
    return Bleu(score, signature, metric.corpus_score(*texts, n_bootstrap=draws)._ci)
