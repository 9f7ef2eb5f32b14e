"""Words of random letters and the same backwards, as a corpus."""

from __future__ import annotations

import torch

from ..data.corpus import Corpus
from ..special import PADDING
from ..toy import draw, encode


def words(count: int, shortest: int = 3, longest: int = 9, *, seed: int = 0) -> Corpus:
    """The same words for the same seed."""
    draws = torch.Generator().manual_seed(seed)
    source, target = encode(draw(count, shortest, longest, draws))
    kept = [
        [[n for n in row if n != PADDING] for row in side.tolist()] for side in (source, target)
    ]
    return Corpus(*kept)
