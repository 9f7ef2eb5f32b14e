"""Three of the claims once more, on real text: Multi30k's captions, from German to English.

Width 64, two layers, 1,000 subwords; an update has 960 tokens. The captions that judge are the
same for all seeds, so each keeps its own cross-entropy, for a bootstrap over seeds and captions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context

from unmasked.plots.picture import COLOURS, GREY, STYLE, Picture, panels
from unmasked.training.recipe import Recipe

from .learning import learn_texts, nats_of_each
from .lstm import count_parameters
from .procedure import Experiment
from .small_data import make
from .statistics import Interval, Table, in_figures
from .texts import Texts, captions

ALL = 29_000
LSTM = "LSTM"
MODELS = (LSTM, "Transformer")
STEPS, WARMUP, SEEDS, DRAWS = 800, 160, 5, 20_000


def trial(
    *, rate: float, seed: int, dropout: float = 0.1, pairs: int = ALL, model: str = "Transformer",
    heads: int = 4, norm: str = "pre", warmup: int = WARMUP, steps: int = STEPS,
) -> dict[str, Any]:  # fmt: skip
    texts = captions(pairs, seed if pairs < ALL else 0)  # all are the same for every seed
    words = len(texts.vocabulary)
    made = make(model, words, dropout, seed, n_heads=heads, norm=norm, max_len=256)
    recipe = Recipe(
        steps=steps, rate=rate, warmup=warmup, tokens=960, smoothing=0.0, clip=1.0, seed=seed
    )
    found = learn_texts(made, texts, recipe)
    each = [round(nats, 2) for nats in nats_of_each(made, texts.test)]
    return {"parameters": count_parameters(made), **found, "each": each, "words": words_of(texts)}


def words_of(texts: Texts) -> int:
    return round(texts.test.labels(range(len(texts.test))) / texts.subwords_a_word)


RATES = {"rate": (0.002, 0.004, 0.008)}
HEADS = Experiment(trial, [{"heads": n} for n in (1, 8)], RATES, SEEDS)
SMALL_DATA = Experiment(
    trial,
    [{"pairs": size, "model": model} for size, model in product((300, ALL), MODELS)],
    {**RATES, "dropout": (0.1, 0.2, 0.3)},
    SEEDS,
)
WARM_UP = Experiment(
    trial,
    [{"norm": norm, "warmup": warmup} for norm, warmup in product(("post", "pre"), (1, WARMUP))],
    RATES,
    SEEDS,
)


class Gap(NamedTuple):
    usual: Interval  # 95% of the draws
    sure: Interval  # 99.9%

    @property
    def clear(self) -> bool:
        return self.sure.low > 0 or self.sure.high < 0


def gap(a: Mapping[str, Any], b: Mapping[str, Any]) -> Gap:
    """Of a - b in nats a word, with seeds and captions drawn anew, both at once."""
    less = np.array([x["each"] for x in a["trials"]]) - np.array([x["each"] for x in b["trials"]])
    words = a["trials"][0]["words"]
    draws = np.random.default_rng(0)
    seeds, sentences = (draws.multinomial(n, np.full(n, 1 / n), size=DRAWS) / n for n in less.shape)
    means = np.einsum("ks,sn,kn->k", seeds, less, sentences) * less.shape[1] / words
    mean = float(less.mean() * less.shape[1] / words)

    def middle(share: float) -> Interval:
        low, high = np.quantile(means, [(1 - share) / 2, (1 + share) / 2])
        return Interval(mean, float(low), float(high))

    return Gap(middle(0.95), middle(0.999))


def comparisons(
    heads: Sequence[Mapping[str, Any]],
    small_data: Sequence[Mapping[str, Any]],
    warm_up: Sequence[Mapping[str, Any]],
) -> dict[str, Gap]:
    """What the page compares, by name: nats a word by which the first is worse."""
    return {
        "one head minus eight": gap(*heads),
        "300 pairs, LSTM minus Transformer": gap(*small_data[:2]),
        "29,000 pairs, LSTM minus Transformer": gap(*small_data[2:]),
        "post-norm, without warm-up minus with": gap(*warm_up[:2]),
        "pre-norm, without warm-up minus with": gap(*warm_up[2:]),
    }


def table(gaps: Mapping[str, Gap]) -> Table:
    lines = [["comparison", "nats a word (95%)"]]
    lines += [[name, in_figures(found.usual, False, signed=True)] for name, found in gaps.items()]
    return Table(lines)


def drawn(gaps: Mapping[str, Gap]) -> Picture:
    """A line each: a bar for 95% of the draws."""
    with rc_context(STYLE):
        figure, [[axis]] = panels(1, 1, 0.55 + 0.42 * len(gaps))
        for i, (usual, _) in enumerate(gaps.values()):
            axis.plot([usual.low, usual.high], [i, i], color=COLOURS[0], lw=2)
            axis.plot(usual.mean, i, "o", color=COLOURS[0], ms=6)
        axis.axvline(0, color=GREY, lw=1, ls=":")
        axis.set_yticks(range(len(gaps)), list(gaps))
        axis.set(ylim=(len(gaps) - 0.5, -0.5), xlabel="nats a word")
        axis.spines[["top", "right"]].set_visible(False)
    words = "; ".join(f"{name}: {found.usual}" for name, found in gaps.items())
    return Picture(figure, f"Differences in nats a word with 95% intervals. {words}.")
