"""Three of the claims once more, on real text: Multi30k's captions, from German to English.

Width 64, two layers, 1,000 subwords; an update has 960 tokens. The captions that judge are the
same for all seeds, so each keeps its own cross-entropy, for a bootstrap over seeds and captions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context

from unmasked.plots.picture import COLOURS, GREY, STYLE, Picture, panels
from unmasked.training.recipe import Recipe
from unmasked_book.experiments.learning import learn_texts, nats_of_each
from unmasked_book.experiments.lstm import count_parameters
from unmasked_book.experiments.procedure import Experiment
from unmasked_book.experiments.small_data import make
from unmasked_book.experiments.statistics import Interval, T, with_ends
from unmasked_book.experiments.texts import Texts, captions
from unmasked_book.tables import Listing

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
    return round(texts.test.labels() / texts.subwords_a_word)


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


class Compared(NamedTuple):
    """The first model's cross-entropy minus the second's, with its interval, and both rows."""

    gap: Interval
    first: Mapping[str, Any]
    second: Mapping[str, Any]


def compared(a: Mapping[str, Any], b: Mapping[str, Any]) -> Compared:
    """In nats per word, with seeds and captions drawn anew, both at once: 95% of the draws.

    So few seeds drawn from themselves scatter too little. What is drawn is moved away from the
    mean by the factor that Student's t has over the normal distribution, and √(n / (n - 1)).
    """
    less = np.array([x["each"] for x in a["trials"]]) - np.array([x["each"] for x in b["trials"]])
    words, n = a["trials"][0]["words"], len(less)
    draws = np.random.default_rng(0)
    seeds, sentences = (draws.multinomial(n, np.full(n, 1 / n), size=DRAWS) / n for n in less.shape)
    means = np.einsum("ks,sn,kn->k", seeds, less, sentences) * less.shape[1] / words
    mean = float(less.mean() * less.shape[1] / words)
    wider = T[n] / 1.96 * math.sqrt(n / (n - 1))
    low, high = mean + wider * (np.quantile(means, [0.025, 0.975]) - mean)
    return Compared(Interval(mean, float(low), float(high)), a, b)


def comparisons(
    heads: Sequence[Mapping[str, Any]],
    small_data: Sequence[Mapping[str, Any]],
    warm_up: Sequence[Mapping[str, Any]],
) -> dict[str, Compared]:
    """What the page compares, by name: the first is worse by so many nats per word."""
    return {
        "one head minus eight": compared(*heads),
        "300 pairs, LSTM minus Transformer": compared(*small_data[:2]),
        "29,000 pairs, LSTM minus Transformer": compared(*small_data[2:]),
        "post-norm, without warm-up minus with": compared(*warm_up[:2]),
        "pre-norm, without warm-up minus with": compared(*warm_up[2:]),
    }


def table(gaps: Mapping[str, Compared]) -> Listing:
    """Each model's mean with the rate that it chose, and the difference."""
    lines = [
        ["comparison", "first: nats, rate", "second: nats, rate", "difference, nats per word (95%)"]
    ]
    for name, (gap, *rows) in gaps.items():
        means = [
            f"{fmean(trial['nats'] for trial in each['trials']):.3f}, {each['rate']:g}"
            for each in rows
        ]
        lines.append([name, *means, with_ends(gap)])
    return Listing(lines)


def drawn(gaps: Mapping[str, Compared]) -> Picture:
    """A line each: a bar for the interval. Right of zero, the second model is the better one."""
    with rc_context(STYLE):
        figure, [[axis]] = panels(1, 1, 0.75 + 0.42 * len(gaps))
        for i, (gap, *_) in enumerate(gaps.values()):
            axis.plot([gap.low, gap.high], [i, i], color=COLOURS[0], lw=2)
            axis.plot(gap.mean, i, "o", color=COLOURS[0], ms=6)
        axis.axvline(0, color=GREY, lw=1, ls=":")
        axis.set_yticks(range(len(gaps)), list(gaps))
        axis.set(ylim=(len(gaps) - 0.5, -0.5), xlabel="← first better · nats per word · "
                 "second better →")  # fmt: skip
        axis.spines[["top", "right"]].set_visible(False)
    words = "; ".join(f"{name}: {found.gap}" for name, found in gaps.items())
    return Picture(figure, f"Differences in nats per word with 95% intervals. {words}.")
