"""Verdicts follow from the measurements: each is given to rows that deserve it."""

import pytest

from unmasked_book.experiments import (
    beyond,
    by_length,
    copying,
    root_of_width,
    small_data,
    variations,
    verdicts,
)
from unmasked_book.experiments.texts import LONG, SHORT
from unmasked_book.experiments.verdicts import NO, PARTLY, UNTESTED, YES

SPREAD = (0.0, 0.002, -0.002, 0.001, -0.001, 0.003, -0.003, 0.0015, -0.0015, 0.0)


def made(value, noise=1.0, **where):
    """A row whose trials measured so much, with a little spread."""
    trials = [dict.fromkeys(("right", "nats"), value + noise * s) for s in SPREAD]
    return {**where, "trials": trials}


def judged(name, rows):
    return verdicts.VERDICTS[name](rows).word


def test_what_was_not_measured_is_not_tested_whatever_the_times():
    for seconds in (0.5, 3.0):
        times = {model: seconds if model in by_length.LSTMS else 1.0 for model in by_length.MODELS}
        rows = [{"threads": 2, "length": n, "model": model, "seconds": times[model]}
                for n in (8, 16) for model in by_length.MODELS]  # fmt: skip
        verdict = verdicts.by_length(rows)
        assert verdict.word == UNTESTED
        assert f"{seconds:.2f}" in verdict.reason


@pytest.mark.parametrize(
    ("right", "word"),
    [((0.2, 0.5, 0.6, 0.9), YES), ((0.2, 0.9, 0.6, 0.9), PARTLY), ((0.9, 0.9, 0.9, 0.9), NO)],
)  # fmt: skip
def test_verdict_copying(right, word):
    rows = [made(r, letters_a_row=9, model=m) for r, m in zip(right, copying.MODELS, strict=True)]
    assert judged("copying", rows) == word


@pytest.mark.parametrize(
    ("gains", "word"),  # of an LSTM: short and few, long and few, short and many, long and many
    [((0.3, 0.3, -0.3, 0.0), YES), ((0.3, 0.3, 0.3, 0.0), PARTLY), ((0.0, -0.3, 0.3, 0.3), NO)],
)  # fmt: skip
def test_verdict_small_data(gains, word):
    """The LSTM with the lower validation loss is the one that is compared."""
    cases, better = [(s, n) for n in (10, 99) for s in (SHORT, LONG)], [*small_data.LSTMS][-1]
    rows = []
    for (sentences, pairs), gain in zip(cases, gains, strict=True):
        for model in small_data.MODELS:
            nats = {"Transformer": 2.0 + gain, better: 2.0}.get(model, 0.1)
            loss = {"rate": {"0.1": 0.0}, "dropout": {"0.1": 1.0 if model == better else 1.5}}
            where = {"sentences": sentences, "pairs": pairs, "model": model, "tried": loss}
            rows.append(made(nats, **where))
    assert judged("small-data", rows) == word


@pytest.mark.parametrize(
    ("gains", "left", "word"),
    [((0.1, 0.5), (0.1, 0.1), YES), ((0.5, 0.1), (0.1, 0.1), PARTLY),
     ((0.1, 0.5), (0.0, 0.1), PARTLY), ((0.5, 0.0), (0.1, 0.1), NO)],
)  # fmt: skip
def test_verdict_root_of_width(gains, left, word):
    less = dict(zip(root_of_width.KINDS, [(0, 0), gains, left], strict=True))
    rows = [made(0.9 - less[kind][i], width=k, kind=kind)
            for i, k in enumerate((4, 8)) for kind in root_of_width.KINDS]  # fmt: skip
    assert judged("root-of-width", rows) == word


@pytest.mark.parametrize(
    ("nats", "word"),
    [((1, 0.5, 0.6, 0.6, 0.6, 2), YES), ((1, 0.5, 1, 1, 1, 0), PARTLY), ((1, 1, 2, 1, 1, 0), NO)],
)
def test_verdict_heads(nats, word):
    """With 32 heads, no matter what comes out."""
    rows = [made(s, variation=name) for s, name in zip(nats, variations.HEADS, strict=True)]
    assert judged("heads", rows) == word


@pytest.mark.parametrize(
    ("gaps", "noise", "word"),
    [((0.0, 0.0), 1, YES), ((0.015, -0.015), 1, YES), ((0.03, 0.0), 1, PARTLY),
     ((0.03, 0.03), 1, NO), ((0.0, 0.0), 30, NO)],
)  # fmt: skip
def test_verdict_positions(gaps, noise, word):
    """A difference that is not clear is no proof that there is none."""
    gaps = dict(zip((variations.LEARNED, variations.SCALED), gaps, strict=True))
    rows = [made(1.0, variation=variations.SINUSOIDAL)]
    rows += [made(1.0 + gap, noise, variation=name) for name, gap in gaps.items()]
    assert judged("positions", rows) == word


@pytest.mark.parametrize(
    ("shares", "rival", "word"),
    [((0.4, 0.3, 0.2), 0.0, YES), ((0.4, 0.3, 0.0), 0.0, PARTLY), ((0.4, 0.3, 0.2), 0.3, PARTLY),
     ((0.0, 0.0, 0.0), 0.0, NO), ((0.4, 0.4, 0.4), 0.6, NO)],
)  # fmt: skip
def test_verdict_beyond(shares, rival, word):
    within = [1.0] * 7
    rows = [
        {"positions": kind,
         "trials": [{"exact": [*within, *(x + s if x else x for x in longer)]} for s in SPREAD]}
        for kind, longer in zip(beyond.KINDS, [shares, (0.0, 0.0, 0.0), (rival,) * 3], strict=True)
    ]  # fmt: skip
    assert judged("beyond", rows) == word


@pytest.mark.parametrize(
    ("post", "pre", "word"),  # gains with clipping and without
    [((0.4, 0.4), (0.0, 0.01), YES), ((0.4, 0.0), (0.0, 0.0), PARTLY),
     ((0.4, 0.4), (0.0, 0.4), PARTLY), ((0.0, 0.4), (0.0, 0.0), NO)],
)  # fmt: skip
def test_verdict_warm_up(post, pre, word):
    rows = [made(0.2 + gain * (warmup > 1), norm=norm, warmup=warmup, clip=clip)
            for norm, gains in (("post", post), ("pre", pre)) for warmup in (1, 100)
            for clip, gain in zip((1.0, None), gains, strict=True)]  # fmt: skip
    assert judged("warm-up", rows) == word


@pytest.mark.parametrize(("times", "memory", "word"), [(2, 2, YES), (2, 1, PARTLY), (1, 1, NO)])
def test_verdict_squared(times, memory, word):
    lengths = [64, 128, 256, 512]
    scaling = {"seconds": {kind: [n**times for n in lengths] for kind in ("explicit", "fused")},
               "mebibytes": {"explicit": [n**2 if times > 1 else n for n in lengths],
                             "fused": [n**memory for n in lengths]}}  # fmt: skip
    assert verdicts.squared(scaling, lengths).word == word
