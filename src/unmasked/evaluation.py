"""How good a translator is: whole sentences, and whether it looks where the words are aligned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .data.corpus import Corpus
from .data.phrasebook import Pair
from .loss import translation_loss
from .search import evaluating
from .sentence_maps import maps_of
from .transformer import Transformer
from .translator import Translator
from .validation import invalid


def mean_surprise(model: Transformer, corpus: Corpus, tokens: int = 4096) -> float:
    """The cross-entropy of a corpus under the model, for each word that it has to say."""
    total = 0.0
    with evaluating(model):
        device = next(model.parameters()).device
        for numbers in corpus.epoch(0, tokens, 0):
            source, target = (x.to(device) for x in corpus.batch(numbers))
            total += corpus.labels(numbers) * translation_loss(model, source, target).item()
    return total / corpus.labels(range(len(corpus)))


@dataclass(frozen=True)
class Score:
    right: int
    count: int

    @property
    def share(self) -> float:
        return self.right / self.count if self.count else math.nan

    def __str__(self) -> str:
        return f"{self.right} of {self.count}, {100 * self.share:.1f} %"


def with_known_words(translator: Translator, pairs: Sequence[Pair]) -> list[Pair]:
    """Those that the model can read and write."""
    source, target = translator.source, translator.target
    return [pair for pair in pairs if source.knows(pair.german) and target.knows(pair.english)]


def exact(
    translator: Translator,
    pairs: Sequence[Pair],
    beam_size: int = 1,
    *,
    length_penalty: float | None = None,
    progress: bool = False,
) -> dict[str, Score]:
    """Sentences translated without any difference: of each construction, and of `all`."""
    german = [pair.german for pair in pairs]
    options: Any = {"beam_size": beam_size, "length_penalty": length_penalty}
    written = translator.translate(german, **options, progress=progress)
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
    for maps in maps_of(translator, [(pair.german, pair.english) for pair in pairs]):
        yield maps.cross


def alignment_agreement(translator: Translator, pairs: Sequence[Pair], layer: int = -1) -> Score:
    """Target words whose strongest source word, over the mean of the heads, is aligned to them.

    Words without a gold alignment are left out.
    """
    layers = translator.model.config.decoder_layers
    if layer not in range(-layers, layers):
        raise invalid("layer", f"one of {layers} layers", layer, "0 is the first, -1 the last")
    right = count = 0
    for pair, maps in zip(pairs, cross_maps(translator, pairs), strict=True):
        strongest = maps[layer].mean(0).argmax(-1).tolist()
        for place in {place for _, place in pair.alignment}:
            right += (strongest[place], place) in pair.alignment
            count += 1
    return Score(right, count)
