"""How good a translator is: whole sentences, and whether it looks where the words are aligned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .data.phrasebook import Pair
from .loss import teacher_forcing
from .search import evaluating
from .translator import Translator


@dataclass(frozen=True)
class Score:
    right: int
    count: int

    @property
    def share(self) -> float:
        return self.right / self.count

    def __str__(self) -> str:
        return f"{self.right} of {self.count}, {100 * self.share:.1f} %"


def exact(translator: Translator, pairs: Sequence[Pair], beam_size: int = 1) -> dict[str, Score]:
    """Sentences translated without any difference: of each construction, and of `all`."""
    written = translator.translate([pair.german for pair in pairs], beam_size=beam_size)
    same = [text == pair.english for text, pair in zip(written, pairs, strict=True)]
    scores = {}
    for name in [*sorted({pair.construction for pair in pairs}), "all"]:
        chosen = [ok for ok, p in zip(same, pairs, strict=True) if name in (p.construction, "all")]
        scores[name] = Score(sum(chosen), len(chosen))
    return scores


def cross_maps(translator: Translator, pairs: Sequence[Pair]) -> Iterator[Tensor]:
    """For each pair, which source words each target word was made from: [layers, H, T, S].

    The row of a word is that of the query which has to say it; the last row is the end's.
    """
    corpus = translator.corpus((pair.german, pair.english) for pair in pairs)
    device = next(translator.model.parameters()).device
    source, target = corpus.batch(range(len(pairs)))
    inputs, _ = teacher_forcing(target.to(device))
    with evaluating(translator.model):
        _, maps = translator.model(source.to(device), inputs, need_weights=True)
    cross = torch.stack(maps.cross)
    for number, (s, t) in enumerate(zip(corpus.source, corpus.target, strict=True)):
        yield cross[:, number, :, : len(t) - 1, : len(s)]


def alignment_agreement(translator: Translator, pairs: Sequence[Pair], layer: int = -1) -> Score:
    """Target words whose strongest source word, over the mean of the heads, is aligned to them.

    Words without a gold alignment are left out.
    """
    right = count = 0
    for pair, maps in zip(pairs, cross_maps(translator, pairs), strict=True):
        strongest = maps[layer].mean(0).argmax(-1).tolist()
        for place in aligned_places(pair):
            right += (strongest[place], place) in pair.alignment
            count += 1
    return Score(right, count)


def aligned_places(pair: Pair) -> Iterable[int]:
    return sorted({place for _, place in pair.alignment})
