"""Measures a translator: cross-entropy, flawless sentences, BLEU, chrF, word alignment."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .errors import invalid
from .loss import teacher_forcing, translation_loss
from .text.aligned import Pair
from .text.corpus import Corpus
from .transformer import Transformer, evaluating
from .translator import Translator


def mean_cross_entropy(model: Transformer, corpus: Corpus, tokens: int = 4096) -> float:
    """Returns a model's cross-entropy on a corpus, in nats a target token; `tokens` to a batch."""
    total, count = 0.0, 0
    with evaluating(model):
        device = next(model.parameters()).device
        for pairs in corpus.epoch(0, tokens, 0):
            source, target = (x.to(device) for x in corpus.batch(pairs))
            labels = corpus.labels(pairs)
            total += labels * translation_loss(model, source, target).item()
            count += labels
    return total / count


@dataclass(frozen=True)
class Correct:
    right: int
    count: int

    @property
    def share(self) -> float:
        return self.right / self.count if self.count else math.nan

    def __str__(self) -> str:
        return f"{self.right} of {self.count}, {100 * self.share:.1f}%"


def exact(
    translator: Translator,
    pairs: Sequence[Pair],
    beam_size: int = 1,
    *,
    length_penalty: float | None = None,
    progress: bool = False,
) -> dict[str, Correct]:
    """Counts translations that equal their reference: for each construction, and for "all"."""
    german = [pair.german for pair in pairs]
    written = translator.translate(
        german, beam_size=beam_size, length_penalty=length_penalty, progress=progress
    )
    same = [text == pair.english for text, pair in zip(written, pairs, strict=True)]
    scores = {}
    for name in [*sorted({pair.construction for pair in pairs}), "all"]:
        chosen = [ok for ok, p in zip(same, pairs, strict=True) if name in (p.construction, "all")]
        scores[name] = Correct(sum(chosen), len(chosen))
    return scores


def cross_maps(translator: Translator, pairs: Sequence[Pair]) -> Iterator[Tensor]:
    """Yields each pair's cross-attention weights when the model reads both: [layers, H, T, S].

    Row t belongs to the query that predicts target word t; the last row predicts the EOS.
    """
    for maps in maps_of_pairs(translator, [(pair.german, pair.english) for pair in pairs]):
        yield maps.cross


def alignment_agreement(translator: Translator, pairs: Sequence[Pair], layer: int = -1) -> Correct:
    """Counts target words whose largest cross-attention weight is on a word aligned to them.

    The weights are the mean of a layer's heads. Words without a gold alignment are left out.
    """
    right = count = 0
    for pair, maps in zip(pairs, cross_maps(translator, pairs), strict=True):
        strongest = maps[layer].mean(0).argmax(-1).tolist()
        for place in {place for _, place in pair.alignment}:
            right += (strongest[place], place) in pair.alignment
            count += 1
    return Correct(right, count)


class Score(NamedTuple):
    """Holds a BLEU or chrF score of sacreBLEU, its settings, and maybe its confidence interval."""

    score: float
    signature: str  # version, tokeniser, case: what two scores must share to be compared
    interval: float | None = None  # ± so much, were the sentences drawn again: in 95 of 100 draws

    def __str__(self) -> str:
        return f"{self.score:.2f}"


def bleu(
    written: Sequence[str], references: Sequence[str], *, draws: int = 0, lowercase: bool = True
) -> Score:
    """Returns the BLEU of all translations `written` together, one reference each, by sacreBLEU.

    `lowercase` ignores case. `draws`, such as 1000, are the bootstrap's samples for an interval.
    """
    return corpus_score("bleu", written, references, draws, lowercase)


def chrf(
    written: Sequence[str], references: Sequence[str], *, draws: int = 0, lowercase: bool = True
) -> Score:
    """Returns chrF, which compares runs of up to six letters; the arguments are those of `bleu`."""
    return corpus_score("chrf", written, references, draws, lowercase)


def corpus_score(
    name: str, written: Sequence[str], references: Sequence[str], draws: int, lowercase: bool
) -> Score:
    metric = metrics(lowercase)[name]
    require_texts(written, references)
    texts = list(written), [list(references)]
    score, signature = metric.corpus_score(*texts).score, str(metric.get_signature())
    interval = None
    with suppress(TypeError):  # of sacreBLEU's means, if nothing in a sample matches
        interval = metric.corpus_score(*texts, n_bootstrap=draws)._ci if draws else None
    return Score(score, signature, interval)


class Paired(NamedTuple):
    difference: float  # of the second's BLEU to the first's
    p: float  # how often chance alone would make one as large, in the same direction

    def __str__(self) -> str:
        return f"{self.difference:+.2f} (p = {self.p:.3f})"


def paired_bootstrap(
    first: Sequence[str], second: Sequence[str], references: Sequence[str], *, draws: int = 1000
) -> Paired:
    """Returns the second system's BLEU less the first's, and a p-value by bootstrap samples.

    The p is sacreBLEU's: it centres the samples' absolute differences and counts those above the
    observed one: about half a two-sided p for a clear difference, less for one close to zero.
    """
    chosen = {"BLEU": metrics()["bleu"]}
    for written in (first, second):
        require_texts(written, references)
    from sacrebleu.significance import PairedTest

    systems: Any = [("first", list(first)), ("second", list(second))]
    test = PairedTest(systems, chosen, [list(references)], test_type="bs", n_samples=draws)
    results: Any = test()[1]["BLEU"]
    return Paired(results[1].score - results[0].score, results[1].p_value)


def metrics(lowercase: bool = True) -> dict[str, Any]:
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        fix = "install it with pip install sacrebleu pooch"
        raise invalid("scores", "the package sacrebleu", "none", fix) from None
    return {"bleu": BLEU(lowercase=lowercase), "chrf": CHRF(lowercase=lowercase)}


def require_texts(written: Sequence[str], references: Sequence[str]) -> None:
    """Raises ValueError unless there are as many translations as references, in two lists."""
    if isinstance(written, str) or isinstance(references, str):
        raise invalid("written", "two lists of texts", "a single text", "put it in a list")
    if len(written) != len(references) or not written:
        got = f"{len(written)} and {len(references)}"
        raise invalid("written", "as many translations as references", got, "leave none out")


BATCH = 128  # pairs whose maps are in memory at once


class SentenceMaps(NamedTuple):
    """Holds the attention weights of one sentence pair, each [layers, H, queries, keys].

    The encoder reads the source and its EOS, S tokens; the decoder reads BOS and the target, T
    tokens. In `decoder` and `cross`, row t predicts the t-th target token, the last row the EOS.
    """

    encoder: Tensor  # [layers, H, S, S]
    decoder: Tensor  # [layers, H, T, T]
    cross: Tensor  # [layers, H, T, S]


def maps_of_pairs(
    translator: Translator, pairs: Sequence[tuple[str, str]]
) -> Iterator[SentenceMaps]:
    """Yields the attention weights of each (source, target) pair when the model reads both."""
    corpus = translator.corpus(pairs)
    for start in range(0, len(pairs), BATCH):
        held = corpus.pairs[start : start + BATCH]
        source, target = corpus.batch(held)
        inputs, _ = teacher_forcing(target.to(translator.device))
        with evaluating(translator.model):
            _, maps = translator.model(source.to(translator.device), inputs, need_weights=True)
        for row, (words, framed) in enumerate(held):
            s, t = len(words), len(framed) - 1
            parts = (
                torch.stack([layer[row, :, :queries, :keys] for layer in layers])
                for layers, (queries, keys) in zip(maps, ((s, s), (t, t), (t, s)), strict=True)
            )
            yield SentenceMaps(*parts)
